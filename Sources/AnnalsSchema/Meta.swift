package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// A replica's facts in `annals_meta`, beside those that every store with history has (`StoreSchema.Meta`).
package struct Meta {
    package let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// Raw values are what stands in the file.
    package enum Name: String, CaseIterable {
        case replica
        /// The secret with which the replica signs.
        case replicaKey = "replica_key"
        case replicaName = "replica_name"
        case relay
        case space
        case lineage
        case position
        /// The log's running digest at the position.
        case logDigest = "log_digest"
        case head
        case lastCounter = "last_counter"
        case lastDigest = "last_digest"
        case outboxed
        case joinStage = "join_stage"
        case credentialFile = "credential_file"
        case caFile = "ca_file"
        /// One a line.
        case pins
        /// The file that holds the space's keys; the keys themselves are nowhere in the store.
        case spaceKeyFile = "space_key_file"
        /// The id of the key under which the space was seen sealed last, in hexadecimal.
        case sealedUnder = "sealed_under"
        /// Voided entries that were passed over; see `PassedVoids`.
        case passedVoids = "passed_voids"
        /// How the space's tables are declared; see `SpaceSchema`.
        case spaceSchema = "space_schema"
        /// The version of that schema alone.
        case spaceVersion = "space_version"
        /// Renames that the space is still to be told of; see `SpaceRename`.
        case renames
        /// Other programs may have written rows that no trigger saw; see `UnverifiedRows`.
        case unverifiedRows = "rows_in_doubt"
        /// What proves that the relay showed different logs; see `LogEvidence`.
        case evidence
        /// The position of the snapshot that this replica began with, where it says of authors what nobody has seen; see `UnconfirmedAuthors`.
        case unconfirmedSnapshot = "told_by_snapshot"
        /// These authors' ids, one after another.
        case unconfirmedAuthors = "told_authors"
        /// Bytes of batches in `annals_log`.
        case recentLogBytes = "kept_log_bytes"
        /// The file turned out to be a copy, and the log since then has not been seen: work of its outbox may be in the space.
        case isCopy = "is_copy"
        /// The newest transaction whose note of a renumbered row was purged; see `RenumberedRows`.
        case renumberedUntil = "renumbered_until"
    }

    package func integer(_ name: Name) throws -> Int64? {
        try StoreSchema.integer(name.rawValue, db)
    }

    package func text(_ name: Name) throws -> String? {
        try MetaTable(db).text(name.rawValue)
    }

    package func bytes(_ name: Name) throws -> [UInt8]? {
        try MetaTable(db).data(name.rawValue).map { [UInt8]($0) }
    }

    /// Several at once; what is not in the file is not among them.
    package func facts(of names: [Name]) throws -> Facts {
        let statement = try MetaTable(db).statement(for: names.map(\.rawValue))
        var facts = Facts()
        defer { statement.rewind() }
        while try statement.step() {
            guard case .text(let text) = statement.value(at: 0), let name = text.string.flatMap(Name.init) else { continue }
            facts.values[name] = statement.value(at: 1)
        }
        return facts
    }

    /// Facts as they were read together.
    package struct Facts {
        package fileprivate(set) var values: [Name: Value] = [:]

        /// A place or a counter; zero for none. Throws `Corruption`.
        package func number(_ name: Name) throws -> Int64 {
            guard let value = values[name] else { return 0 }
            guard let number = value.integer, SchemaLimits.positions.contains(number) else {
                throw Corruption("annals_meta.\(name.rawValue)")
            }
            return number
        }

        package func text(_ name: Name) -> String? {
            guard case .text(let text) = values[name] else { return nil }
            return String(decoding: text.bytes, as: UTF8.self)
        }

        package func bytes(_ name: Name) -> [UInt8]? {
            guard case .blob(let bytes) = values[name] else { return nil }
            return Array(bytes.bytes)
        }
    }

    /// Writes nothing where the value is there already.
    package func set(_ name: Name, _ value: (any DatabaseValueConvertible)?) throws {
        let table = MetaTable(db)
        if value == nil { try table.remove(name.rawValue) } else { try table.set(name.rawValue, value) }
    }
}
