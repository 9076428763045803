package import AnnalsCore
import AnnalsSchema
package import AnnalsWire
package import GRDB

/// Decisions of people that a transaction carries besides its changes: policies, resolutions and references.
package struct UserDecisions: Sendable {
    package var policies: [PolicySetting] = []
    package var resolutions: [ConflictResolution] = []
    package var references: [ReferenceSetting] = []

    package init(policies: [PolicySetting] = [], resolutions: [ConflictResolution] = [], references: [ReferenceSetting] = []) {
        self.policies = policies
        self.resolutions = resolutions
        self.references = references
    }

    package init(_ rest: BodyReader.Rest) {
        self.init(policies: rest.policies, resolutions: rest.resolutions, references: rest.references)
    }

    package var isEmpty: Bool { policies.isEmpty && resolutions.isEmpty && references.isEmpty }

    /// Whether they change how later transactions merge. Such a transaction conflicts with everything, so every later one was written,
    /// or rebased, when its author knew them.
    package var concernEverything: Bool { !policies.isEmpty || !references.isEmpty }

    /// Drops decisions about conflicts that another replica has decided meanwhile, if they change nothing that the conflict is about. The
    /// mark in the journal would contradict the row.
    ///
    /// - Parameter rows: what is left of the changes of their transaction.
    mutating func yield(to notes: RowIdentityRecorder, unlessIn rows: WriteSet, _ db: Database) throws {
        try resolutions.removeAll { resolution in
            guard notes.decided.contains(resolution.conflict) else { return false }
            guard let entry = try ConflictJournal.find(db, resolution.conflict)?.entry else { return rows.isEmpty }
            return !rows.touches(entry.table, entry.columns)
        }
        notes.noteKept(resolutions)
    }

    /// Applies what settles a merge. The rest has no effect on rows.
    package func applyRules(_ db: Database) throws {
        try PolicyTable.set(db, policies, isOverride: false)
        try ReferenceTable.set(db, references)
    }

    /// Applies the decisions: when their author makes them, when they are pulled, and when a rebase repeats their transaction.
    package func apply(_ db: Database) throws {
        try applyRules(db)
        for resolution in resolutions { try ConflictJournal.note(db, resolution) }
    }
}
