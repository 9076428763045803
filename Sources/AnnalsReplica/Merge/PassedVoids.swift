package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// Voided entries that this replica passed, because the relay sent only their clear parts. They are recorded until the relay's
/// own entry explains them.
///
/// The relay's entry makes all replicas equal. A replica that passed the voided entry has nothing to do. A replica that
/// applied it, such as its author, has rows that the log does not have any more, and compares its rows with the log.
package enum PassedVoids {
    package static func load(_ db: Database) throws -> [VoidedEntry] {
        try (Meta(db).text(.passedVoids) ?? "").split(separator: " ").map { text in
            let parts = text.split(separator: "-")
            guard parts.count == 2, let position = Int64(parts[0]), let digest = Digest(String(parts[1])) else {
                throw Corruption(Meta.Name.passedVoids)
            }
            return VoidedEntry(position: Position(position), digest: digest)
        }
    }

    private static func save(_ entries: [VoidedEntry], _ db: Database) throws {
        let text = entries.map { "\($0.position)-\($0.digest)" }.joined(separator: " ")
        try Meta(db).set(.passedVoids, text.isEmpty ? nil : text)
    }

    package static func note(_ db: Database, _ entry: VoidedEntry) throws {
        try save(load(db) + [entry], db)
    }

    /// To be called with the entries that the relay voided.
    ///
    /// - Returns: Whether this replica passed all of them. If not, its rows hold entries that the log does not have any more.
    static func explain(_ db: Database, _ voids: [VoidedEntry]) throws -> Bool {
        let passed = try load(db)
        try save(passed.filter { !voids.contains($0) }, db)
        return voids.allSatisfy(passed.contains)
    }

    /// To be called when another log continues after a position.
    package static func drop(_ db: Database, after position: Position) throws {
        try save(load(db).filter { $0.position <= position }, db)
    }

    /// To be called when a snapshot replaces the log up to a position.
    package static func forget(_ db: Database, through position: Position) throws {
        try save(load(db).filter { $0.position > position }, db)
    }
}
