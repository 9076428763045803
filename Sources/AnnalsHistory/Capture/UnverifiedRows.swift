package import AnnalsCore
import AnnalsSchema
package import GRDB

/// Why and where a joined store's rows must be compared with the log before it may exchange anything.
///
/// Another program rebuilt a tracked table or dropped a trigger, so rows may have been written that no trigger saw. The
/// triggers are back, but what was missed is in nobody's log: pushed on top of it, later work would not fit anywhere else. It is the
/// same where an entry that the rows hold was voided (`PassedVoids`).
package struct UnverifiedRows: Sendable, Equatable {
    package var space: SpaceName
    package var lineage: Lineage
    /// The log is applied up to here.
    package var position: Position
    /// Own entries beyond it that are in the rows already.
    package var ahead: [Position]

    package init(space: SpaceName, lineage: Lineage, position: Position, ahead: [Position]) {
        self.space = space
        self.lineage = lineage
        self.position = position
        self.ahead = ahead
    }

    /// An unjoined store has no log to be compared with: its older tokens expire, and that is all.
    package static func note(_ db: Database) throws {
        guard try StoreSchema.isReplica(db) else { return }
        try Meta(db).set(.unverifiedRows, 1)
    }

    package static func isNoted(_ db: Database) throws -> Bool {
        try Meta(db).integer(.unverifiedRows) != nil
    }

    /// For what must not run before the rows were compared.
    package static func check(_ db: Database) throws {
        guard try isNoted(db) else { return }
        throw AnnalsError(
            .busy, operation: "sync", "another program rebuilt a table just now, or an entry was voided", hint: "Run sync again",
            isRetryable: true)
    }
}
