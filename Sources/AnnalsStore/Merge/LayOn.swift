import AnnalsCore
import AnnalsMerge
import GRDB

/// Lays outbox transactions on top of what was pulled, oldest first: the one place where conflicts are settled.
///
/// Each transaction is tried in a savepoint. What breaks a constraint adds a decision (this change set aside, this
/// delete refused), the try is undone and repeated. Decisions are only added, so it ends: at worst the whole
/// transaction is set aside, visibly, in the conflict journal (law 5).
final class LayOn {
    let session: MergeSession
    let marks: Marks
    /// Who lays on, and the relay's clock when it answered, in milliseconds since 1970: together with the
    /// transaction's time they say who is later.
    let replica: ReplicaID
    let relayTime: Int64
    var names = RowNames()
    /// Per table the highest integer key that is used, was ever used, or is wanted by the outbox.
    var highestKeys: [String: Int64]

    init(session: MergeSession, marks: Marks, replica: ReplicaID, relayTime: Int64, highestKeys: [String: Int64]) {
        self.session = session
        self.marks = marks
        self.replica = replica
        self.relayTime = relayTime
        self.highestKeys = highestKeys
    }

    /// What became of one outbox transaction.
    struct Laid {
        var rows: NetRows
        var journal: [JournalEntry]
    }

    func lay(_ transaction: OutboxTransaction) throws -> Laid {
        var decisions = Decisions()
        for _ in 0..<ApplyLimits.decisionRounds {
            let mark = session.historyMark()
            try session.db.execute(sql: "SAVEPOINT annals_lay")
            let attempt = LayAttempt(self, transaction, decisions)
            if let decision = try attempt.run() {
                try session.db.execute(sql: "ROLLBACK TO annals_lay; RELEASE annals_lay")
                session.rewindHistory(to: mark)
                session.checks.reset()
                guard decisions.add(decision) else { throw MergeError.unsettled(table: decision.table) }
            } else {
                try session.db.execute(sql: "RELEASE annals_lay")
                session.checks.reset()
                names = attempt.names
                highestKeys = attempt.highestKeys
                return Laid(rows: attempt.rows, journal: transaction.journal + attempt.journal)
            }
        }
        throw MergeError.unsettled(table: "")
    }

    func table(_ name: String) throws -> RowTable { try session.table(named: name) }
}

/// What has been decided about a transaction's changes so far. Only ever added to.
struct Decisions {
    enum Kind: Hashable {
        /// The change is dropped; its values go to the journal.
        case setAside(JournalEntry.Kind)
        /// An update gives up the columns of this foreign key.
        case dropReference(Int)
        /// The columns of this foreign key become NULL.
        case nullReference(Int)
        /// An update gives up its unique columns.
        case dropUnique
    }

    struct Decision: Hashable {
        var change: Int
        var kind: Kind
        var table: String
    }

    private var kinds: [Int: Set<Kind>] = [:]

    /// False when it was there already: then trying again would not help.
    mutating func add(_ decision: Decision) -> Bool {
        kinds[decision.change, default: []].insert(decision.kind).inserted
    }

    func of(_ change: Int) -> Set<Kind> { kinds[change] ?? [] }

    func setAside(_ change: Int) -> JournalEntry.Kind? {
        for case .setAside(let kind) in of(change) { return kind }
        return nil
    }
}
