package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// How far a join that makes a space has come.
package enum CreationStage: Sendable, Hashable {
    /// The space's first entry is on its way, or is there. The beginning tells this try from another of the same space: each has copied
    /// the rows of its own moment.
    case started(Lineage, beginning: String)
    /// The snapshot with that digest is on its way, or is there.
    case copied(Lineage, Digest)

    package var lineage: Lineage {
        switch self {
        case .started(let lineage, _), .copied(let lineage, _): lineage
        }
    }
}

extension CreationStage {
    private static let started = "creating"

    package static func load(_ db: Database) throws -> Self? {
        guard try StoreSchema.exists(db), let text = try Meta(db).text(.joinStage) else { return nil }
        guard let lineage = try ReplicaState.load(db)?.lineage else { throw Corruption("annals_meta") }
        let words = text.split(separator: " ")
        if let first = words.first, first == Self.started { return .started(lineage, beginning: words.dropFirst().joined()) }
        guard let digest = Hexadecimal.decode(text).flatMap({ Digest(bytes: $0) }) else { throw Corruption("annals_meta.join_stage") }
        return .copied(lineage, digest)
    }

    package func save(_ db: Database) throws {
        switch self {
        case .started(_, let beginning): try Meta(db).set(.joinStage, "\(Self.started) \(beginning)")
        case .copied(_, let digest): try Meta(db).set(.joinStage, digest.description)
        }
    }
}
