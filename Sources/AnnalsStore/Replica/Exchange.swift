public import AnnalsCore
import AnnalsWire
import Foundation
import GRDB

/// Where a joined store stands in an exchange.
public struct ExchangeStatus: Sendable {
    public var replica: ReplicaID
    public var space: SpaceName
    public var lineage: Lineage
    public var position: Position
    public var head: Position
    /// Local transactions that the space has not ordered yet, those under way included.
    public var outbox: Int
    public var isPushUnderWay: Bool
    /// Conflicts settled just now among this store's own writes: references that a program broke with checks off.
    public var conflicts = 0

    /// The relay has told of entries that are not applied yet.
    public var isBehind: Bool { position < head }
}

/// A push whose bytes stay as they are until the relay has given a definite answer.
public struct FrozenPush: Sendable {
    public var batch: [UInt8]
    public var lineage: Lineage
    /// Of its transactions, in order: which push an answer belongs to.
    public var digests: [Digest]
}

/// What the relay's answer to a push settled.
public struct SettledPush: Sendable {
    public var status: ExchangeStatus
    /// Accepted now.
    public var transactions: Int
    public var changes: Int
}

/// What a page of the log brought.
public struct TakenPage: Sendable {
    public var status: ExchangeStatus
    public var transactions: Int
    public var changes: Int
    public var bytes: Int
    /// Conflicts settled here while the outbox was laid on top.
    public var conflicts: Int
}

/// The replica's half of an exchange, inside a write transaction. What it does is in the order of DESIGN's journey:
/// seal and fill the outbox, freeze a push, settle its answer, take in what others wrote.
struct ReplicaExchange {
    let db: Database
    let identities: NewIdentities
    var state: ReplicaState

    init(_ db: Database, _ identities: NewIdentities) throws {
        guard let state = try ReplicaState.load(db) else {
            throw AnnalsError(.notJoined, operation: "sync", "the store is not joined to a space", hint: "Run annals join first")
        }
        self.db = db
        self.identities = identities
        self.state = state
    }

    func status() throws -> ExchangeStatus {
        ExchangeStatus(
            replica: state.replica, space: state.space, lineage: state.lineage, position: state.position, head: state.head,
            outbox: try Outbox.count(db), isPushUnderWay: try Push.isUnderWay(db))
    }

    func freeze() throws -> FrozenPush? {
        let push = try Push.load(db) ?? Push.freeze(db, state, layouts: LayoutNames(db))
        return try push.map { FrozenPush(batch: try $0.batch(db), lineage: state.lineage, digests: $0.digests) }
    }

    /// Takes note of which transactions of the push are in the log now. A push answer is committed before the entries
    /// that came with it are applied.
    ///
    /// - Parameter digests: those of the push that was answered.
    mutating func settle(_ answer: PushAnswer, digests: [Digest]) throws -> SettledPush {
        // Two agents may sync one file at once: an answer that comes late belongs to a push that is settled.
        guard let push = try Push.load(db), push.digests == digests else { return try unsettled() }
        switch answer.outcome {
        case .wait: return try unsettled()
        case .wentBack: throw Self.wentBack
        case .identityConflict, .gap: return try takeNewIdentity()
        case .accepted, .stale: break
        }
        guard answer.positions.count <= push.transactions else { throw WireError.badLength }
        let settled = try accept(answer, push)
        try Push.thaw(db)
        state.head = max(state.head, answer.head)
        try advanceThroughOwn()
        try state.saveProgress(db)
        return SettledPush(status: try status(), transactions: settled.transactions, changes: settled.changes)
    }

    private func unsettled() throws -> SettledPush {
        SettledPush(status: try status(), transactions: 0, changes: 0)
    }

    /// The relay holds other work under this replica's counters: the file is a copy of a replica, or a restored backup.
    /// From here on it is a replica of its own. Its transactions keep their ids, so what the space holds already through
    /// the other copy is recognised and dropped when it is pulled (MERGE's rule 39).
    private mutating func takeNewIdentity() throws -> SettledPush {
        state.take(newIdentity: identities.next())
        try state.save(db)
        try Push.thaw(db)
        return try unsettled()
    }

    private mutating func accept(_ answer: PushAnswer, _ push: Push) throws -> (transactions: Int, changes: Int) {
        let accepted = try Outbox.heads(db, through: push.lastSequence, limit: answer.positions.count)
        guard accepted.count == answer.positions.count else { throw StoreDamage("annals_outbox") }
        for (index, row) in accepted.enumerated() {
            let counter = Counter(push.firstCounter.rawValue + Int64(index))
            try db.execute(sql: "INSERT INTO annals_ahead (position) VALUES (?)", arguments: [answer.positions[index].rawValue])
            if row.journal > 0 {
                guard let body = try Outbox.row(db, sequence: row.sequence)?.body else { throw StoreDamage("annals_outbox") }
                var reader = try BodyReader(bytes: body)
                try ConflictJournal.append(
                    db, try reader.journalEntries(), transaction: reader.info, replica: state.replica, position: answer.positions[index],
                    receivedAt: answer.receivedAt)
            }
            state.lastCounter = counter
            state.lastDigest = push.digests[index]
        }
        if let last = accepted.last { try Outbox.delete(db, through: last.sequence) }
        return (accepted.count, accepted.reduce(0) { $0 + $1.changes })
    }

    /// Own entries that come next in the log are in the rows already, so the position passes them without a pull.
    private mutating func advanceThroughOwn() throws {
        while try Outbox.pass(db, state.position.next) { state.position = state.position.next }
    }

    static var wentBack: AnnalsError {
        AnnalsError(
            .relayWentBack, operation: "sync", "the relay's log is shorter than, or other than, the one seen before",
            hint: "It was restored from an older backup; nothing was changed here. Local work goes on")
    }
}
