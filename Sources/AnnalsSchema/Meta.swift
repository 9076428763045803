package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// A replica's values in `annals_meta`, besides those of every store with history (`StoreSchema.Meta`).
package struct Meta {
    package let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// The raw values are the names in the file.
    package enum Name: String, CaseIterable {
        case replica
        /// The secret key with which the replica signs.
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
        /// The newest transaction when the store joined an existing space, which took its rows as a whole.
        case joined
        case joinStage = "join_stage"
        case credentialFile = "credential_file"
        case caFile = "ca_file"
        /// One pin a line.
        case pins
        /// The path of the file that holds the space's keys. The keys themselves are not in the store.
        case spaceKeyFile = "space_key_file"
        /// The id of the key with which the newest encrypted data of the space was sealed, in hexadecimal.
        case sealedUnder = "sealed_under"
        /// Voided entries that the replica passed over; see `PassedVoids`.
        case passedVoids = "passed_voids"
        /// The declarations of the space's tables; see `SpaceSchema`.
        case spaceSchema = "space_schema"
        /// The version of that schema.
        case spaceVersion = "space_version"
        /// Renames that are not in the outbox yet; see `SpaceRename`.
        case renames
        /// Other programs may have written rows without capture; see `UnverifiedRows`.
        case unverifiedRows = "rows_unverified"
        /// The proof that the relay served different logs; see `LogEvidence`.
        case evidence
        /// The position of the snapshot with which this replica began, while its statements about authors are unconfirmed; see
        /// `UnconfirmedAuthors`.
        case unconfirmedSnapshot = "unconfirmed_snapshot"
        /// The ids of these authors, concatenated.
        case unconfirmedAuthors = "unconfirmed_authors"
        /// The number of bytes of the batches in `annals_log`.
        case recentLogBytes = "kept_log_bytes"
        /// The file is a copy, and the log since the copying has not been read. So the space may already have transactions of this
        /// outbox.
        case isCopy = "is_copy"
        /// The newest transaction that a purged note of a renumbered row belonged to; see `RenumberedRows`.
        case renumberedUntil = "renumbered_until"
        /// The error that ended the last sync, as JSON; see `SyncProblem`.
        case syncProblem = "sync_problem"
        /// The newest transaction when the store left its space; see `UnsentRows`.
        case left
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

    /// Reads several values at once. Values that are not in the file are left out.
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

    /// Values that were read together.
    package struct Facts {
        package fileprivate(set) var values: [Name: Value] = [:]

        /// A position or a counter; zero if there is none. Throws `Corruption`.
        package func number(_ name: Name) throws -> Int64 {
            guard let value = values[name] else { return 0 }
            guard let number = value.integer, SchemaLimits.positions.contains(number) else {
                throw Corruption(name)
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

    /// Writes nothing if the value is stored already.
    package func set(_ name: Name, _ value: (any DatabaseValueConvertible)?) throws {
        let table = MetaTable(db)
        if value == nil { try table.remove(name.rawValue) } else { try table.set(name.rawValue, value) }
    }
}

extension Corruption {
    /// Corruption of a value in `annals_meta`.
    package init(_ name: Meta.Name) { self.init("\(OwnTables.meta).\(name.rawValue)") }

    /// Corruption of a value in `annals_meta`.
    package init(_ name: StoreSchema.Meta) { self.init("\(OwnTables.meta).\(name.rawValue)") }
}
