package import AnnalsCore
import AnnalsSchema
package import GRDB

/// Says that a joined store's rows must be compared with the log before the next exchange.
///
/// Another program rebuilt a tracked table or dropped a trigger, so rows may have been written without capture. The triggers are
/// restored, but no log has the missed writes. Later transactions would be based on them and would not fit on other replicas. The
/// same applies if an entry that is in the rows was voided (`PassedVoids`).
package struct UnverifiedRows: Sendable, Equatable {
    package var space: SpaceName
    package var lineage: Lineage
    /// The position up to which the log is applied.
    package var position: Position
    /// The replica's own entries after that position, which are in the rows already.
    package var ahead: [Position]

    package init(space: SpaceName, lineage: Lineage, position: Position, ahead: [Position]) {
        self.space = space
        self.lineage = lineage
        self.position = position
        self.ahead = ahead
    }

    /// Marks rows as unverified. A store that is not joined has no log to compare with, so only its older tokens expire.
    package static func note(_ db: Database) throws {
        guard try StoreSchema.isReplica(db) else { return }
        try Meta(db).set(.unverifiedRows, 1)
    }

    package static func isNoted(_ db: Database) throws -> Bool {
        try Meta(db).integer(.unverifiedRows) != nil
    }

    /// Throws if the rows must be compared first.
    package static func check(_ db: Database) throws {
        guard try isNoted(db) else { return }
        throw AnnalsError(
            .busy, operation: "sync", "a table was rebuilt just now, or an entry was voided", hint: "Run sync again",
            isRetryable: true)
    }
}
