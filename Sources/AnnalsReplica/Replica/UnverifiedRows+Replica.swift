package import AnnalsHistory
import AnnalsSchema
package import GRDB

extension UnverifiedRows {
    /// nil when nothing is in doubt.
    package static func load(_ db: Database) throws -> UnverifiedRows? {
        guard try isNoted(db), let state = try ReplicaState.load(db) else { return nil }
        return UnverifiedRows(
            space: state.space, lineage: state.lineage, position: state.position, ahead: try Outbox.ahead(db).sorted())
    }
}
