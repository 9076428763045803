package import AnnalsCore
package import AnnalsWire
package import GRDB

/// What people decided, as it travels in a transaction beside its changes: policies and resolutions.
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

    /// Puts them in force here: when their author makes them, when they are pulled, and again when they are laid on top
    /// of what was pulled.
    package func apply(_ db: Database) throws {
        try PolicyTable.set(db, policies, isOverride: false)
        for resolution in resolutions { try ConflictJournal.note(db, resolution) }
    }
}
