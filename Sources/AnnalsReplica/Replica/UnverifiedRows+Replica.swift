package import AnnalsHistory
import AnnalsSchema
package import GRDB

extension UnverifiedRows {
    /// nil if no rows are unverified.
    package static func load(_ db: Database) throws -> UnverifiedRows? {
        guard try isNoted(db), let state = try ReplicaState.load(db) else { return nil }
        return UnverifiedRows(
            space: state.space, lineage: state.lineage, position: state.position, ahead: try Outbox.ahead(db).sorted())
    }
}
