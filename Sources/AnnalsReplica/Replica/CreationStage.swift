package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// The progress of a join that creates a space.
package enum CreationStage: Sendable, Hashable {
    /// The space's first entry is sent or accepted. `beginning` distinguishes this attempt from other attempts for the same space,
    /// because each attempt has copied the rows at another time.
    case started(Lineage, beginning: String)
    /// The snapshot with this digest is sent or accepted.
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
        guard let lineage = try ReplicaState.load(db)?.lineage else { throw Corruption(OwnTables.meta) }
        let words = text.split(separator: " ")
        if let first = words.first, first == Self.started { return .started(lineage, beginning: words.dropFirst().joined()) }
        guard let digest = Hexadecimal.decode(text).flatMap({ Digest(bytes: $0) }) else { throw Corruption(Meta.Name.joinStage) }
        return .copied(lineage, digest)
    }

    package func save(_ db: Database) throws {
        switch self {
        case .started(_, let beginning): try Meta(db).set(.joinStage, "\(Self.started) \(beginning)")
        case .copied(_, let digest): try Meta(db).set(.joinStage, digest.description)
        }
    }
}
