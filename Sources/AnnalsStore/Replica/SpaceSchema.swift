import AnnalsCore
import Foundation
import GRDB

/// How the space's tables were declared when this store became a replica.
///
/// A column or constraint that only this store has would let its work into the log that others cannot take in, and one
/// that it lost would keep it from taking in theirs. Such a store does not sync until both are alike again (DESIGN 8).
enum SpaceSchema {
    static func save(_ db: Database, _ tables: TrackedTables) throws {
        try Meta(db).set(.spaceSchema, encode(tables))
    }

    static func copy(from other: Database, to db: Database) throws {
        try Meta(db).set(.spaceSchema, try Meta(other).bytes(.spaceSchema).map { Data($0) })
    }

    /// Throws `AnnalsError` with code `schemaRefused`, naming the first table that differs and how.
    static func check(_ db: Database, _ tables: TrackedTables) throws {
        guard let bytes = try Meta(db).bytes(.spaceSchema), try Data(bytes) != encode(tables) else { return }
        guard let space = try? JSONDecoder().decode([TableDefinition].self, from: Data(bytes)) else {
            throw StoreDamage("annals_meta.space_schema")
        }
        try SchemaAgreement.check(tables, TrackedTables(space.map { (0, $0) }), operation: "sync")
    }

    /// The same bytes for the same declarations.
    private static func encode(_ tables: TrackedTables) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return try encoder.encode(tables.entries.map(\.definition))
    }
}
