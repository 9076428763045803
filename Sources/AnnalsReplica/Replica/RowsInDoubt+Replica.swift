package import AnnalsHistory
import AnnalsSchema
package import GRDB

extension RowsInDoubt {
    /// nil when nothing is in doubt.
    package static func load(_ db: Database) throws -> RowsInDoubt? {
        guard try isNoted(db), let state = try ReplicaState.load(db) else { return nil }
        return RowsInDoubt(
            space: state.space, lineage: state.lineage, position: state.position, ahead: try Outbox.ahead(db).sorted())
    }
}
