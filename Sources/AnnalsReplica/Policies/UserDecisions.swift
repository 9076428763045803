package import AnnalsCore
package import AnnalsWire
package import GRDB

/// Decisions of people that a transaction carries besides its changes: policies and resolutions.
package struct UserDecisions: Sendable {
    package var policies: [PolicySetting] = []
    package var resolutions: [ConflictResolution] = []

    package init(policies: [PolicySetting] = [], resolutions: [ConflictResolution] = []) {
        self.policies = policies
        self.resolutions = resolutions
    }

    package init(_ rest: BodyReader.Rest) {
        self.init(policies: rest.policies, resolutions: rest.resolutions)
    }

    package var isEmpty: Bool { policies.isEmpty && resolutions.isEmpty }

    /// Applies the decisions: when their author makes them, when they are pulled, and when a rebase repeats their transaction.
    package func apply(_ db: Database) throws {
        try PolicyTable.set(db, policies, isOverride: false)
        for resolution in resolutions { try ConflictJournal.note(db, resolution) }
    }
}
