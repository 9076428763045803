import AnnalsCore
import AnnalsWire
import GRDB

/// What people decided, as it travels in a transaction beside its changes: policies and resolutions.
struct HumanDecisions: Sendable {
    var policies: [PolicySetting] = []
    var resolutions: [ConflictResolution] = []

    init(policies: [PolicySetting] = [], resolutions: [ConflictResolution] = []) {
        self.policies = policies
        self.resolutions = resolutions
    }

    init(_ rest: BodyReader.Rest) {
        self.init(policies: rest.policies, resolutions: rest.resolutions)
    }

    var isEmpty: Bool { policies.isEmpty && resolutions.isEmpty }

    /// Puts them in force here: when their author makes them, when they are pulled, and again when they are laid on top
    /// of what was pulled.
    func apply(_ db: Database) throws {
        try PolicyTable.set(db, policies, isOverride: false)
        for resolution in resolutions { try ConflictJournal.note(db, resolution) }
    }
}
