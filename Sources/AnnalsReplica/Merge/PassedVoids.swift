package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// Entries that this replica passed over since the relay handed out their clear part alone, until the relay's own entry
/// explains why.
///
/// That entry is what makes all replicas equal: who passed over the voided one has nothing to do; who took it in, such as
/// its author, has rows that the log does not have any more, and compares them with it.
package enum PassedVoids {
    package static func load(_ db: Database) throws -> [VoidedEntry] {
        try (Meta(db).text(.passedVoids) ?? "").split(separator: " ").map { text in
            let parts = text.split(separator: "-")
            guard parts.count == 2, let position = Int64(parts[0]), let digest = Digest(String(parts[1])) else {
                throw Corruption("annals_meta.passed_voids")
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

    /// The relay says which entries it voided.
    ///
    /// - Returns: whether all of them were passed over here; else the rows hold what the log has no longer.
    static func explain(_ db: Database, _ voids: [VoidedEntry]) throws -> Bool {
        let passed = try load(db)
        try save(passed.filter { !voids.contains($0) }, db)
        return voids.allSatisfy(passed.contains)
    }

    /// Another log goes on after a position.
    package static func drop(_ db: Database, after position: Position) throws {
        try save(load(db).filter { $0.position <= position }, db)
    }

    /// A snapshot takes the place of the log up to there.
    package static func forget(_ db: Database, through position: Position) throws {
        try save(load(db).filter { $0.position > position }, db)
    }
}
