import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import GRDB

/// The decisions about undeclared references of a store that joins an existing space. The space's decisions count. Those about other
/// columns are sent to the space.
struct JoiningReferences {
    private let db: Database
    private let theirs: [ReferenceSetting]
    private let offered: [ReferenceSetting]

    /// - Parameter tables: The store's tables with their canonical names in the space.
    init(_ db: Database, _ other: Database, _ tables: TrackedTables) throws {
        self.db = db
        theirs = try ReferenceTable.load(other)
        let own = tables.undeclared.map { $0.renamed(tables.canonicalNames) }
        offered = ReferenceTable.undecided(own, in: theirs)
    }

    /// Stores all of them.
    func take() throws {
        try ReferenceTable.save(ReferenceTable.merged(theirs, with: offered), db)
    }

    /// Puts the store's own into the outbox. To be called when the store has the space's decisions.
    func offer(_ step: StoreStep) throws {
        guard !offered.isEmpty else { return }
        let decisions = UserDecisions(references: offered)
        try step.filler().append(decisions, with: nil, as: step.identities.next(), time: step.tick(), author: nil)
        try decisions.apply(db)
    }
}
