package import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// The state of a joined store in an exchange.
package struct ExchangeStatus: Sendable {
    package var replica: ReplicaID
    package var space: SpaceName
    /// The part of the log that this replica has seen. The relay's log must agree with it.
    package var seen: LogMark
    package var position: Position { seen.position }
    /// The position up to which the log was received. Beyond `position` there are only parts of a transaction without its last part.
    package var pulled: Position
    package var head: Position
    /// The last position of this replica's own entries that the relay has confirmed. It can be beyond `position`.
    package var accepted: Position
    /// Local transactions that the relay has not accepted, including those in the push under way.
    package var outbox: Int
    package var isPushUnderWay: Bool
    /// The rows must be compared with the log before any exchange; see `UnverifiedRows`.
    package var areRowsUnverified: Bool
    /// The join that creates the space is not finished: see `CreationStage`.
    package var isSpaceUnfinished: Bool
    /// The newest page ended before own entries that the position has passed. The relay's next answer shows whether its log still
    /// has them (merge rule 41).
    package var hasPassedUnseen = false

    /// The position of a voided entry, according to the relay's answer, that no entry of the log explains yet.
    package var unexplainedVoids: Position?

    /// The version of the space's schema at the position that is applied.
    package var schemaVersion: Int64 = 1
    /// The space has tables or columns that this store lacks. Their cells are deferred until the store is migrated.
    package var isBehindSchema = false
    /// Transactions stay in the outbox until the store is migrated; see `MigrationBarrier`.
    package var isWaitingForMigration = false

    /// The relay has entries that are not applied here, or may have more.
    package var isBehind: Bool { position < head || hasPassedUnseen }
}

/// A push with bytes that do not change until the relay gives a definite answer.
///
/// A transaction that is too large for one batch is sent in parts, in their order. The answer to the last part, or an answer
/// that refuses, settles the whole push.
package struct FrozenPush: Sendable {
    /// The bytes to send: the batch, or this part of it.
    package var batch: [UInt8]
    /// What this replica has seen of the log.
    package var seen: LogMark
    /// The digests of its transactions or parts, in order. They identify the push that an answer belongs to.
    package var digests: [Digest]
    /// The number of this part, from 0.
    package var part = 0
    /// The number of parts; 1 for whole batches.
    package var parts = 1
    /// The counter of the first transaction or part.
    package var firstCounter: Counter
    /// It was frozen just now, so it cannot have been sent before.
    package var isNew = false

    /// The name that an answer to these bytes must have.
    package var name: PushName {
        PushName(
            replica: seen.replica ?? .relay, firstCounter: Counter(firstCounter.rawValue + Int64(part)),
            lastDigest: (parts > 1 && digests.indices.contains(part) ? digests[part] : digests.last) ?? .zero)
    }
}

/// The result of an answer to a push.
package struct SettledPush: Sendable {
    package var status: ExchangeStatus
    /// The number of newly accepted transactions.
    package var transactions: Int
    package var changes: Int
    package var journal = JournalGrowth()
    /// From the time of each of these transactions until the answer.
    package var delays = Delays()
}

/// The result of applying a page of the log.
package struct AppliedPage: Sendable {
    package var status: ExchangeStatus
    package var transactions = 0
    package var changes = 0
    package var bytes = 0
    package var journal = JournalGrowth()
    /// From the time of each transaction of another replica until it was applied, by the clocks of both.
    package var delays: Delays

    package init(
        status: ExchangeStatus, transactions: Int = 0, changes: Int = 0, bytes: Int = 0, journal: JournalGrowth = JournalGrowth(),
        delays: Delays = Delays()
    ) {
        self.status = status
        self.transactions = transactions
        self.changes = changes
        self.bytes = bytes
        self.journal = journal
        self.delays = delays
    }
}

/// The replica's half of an exchange, inside a write transaction. The order is the way of a transaction: record external writes and
/// fill the outbox, freeze a push, settle its answer, apply the entries of other replicas.
package struct ReplicaExchange {
    package let db: Database
    package let identities: NewIdentities
    package var state: ReplicaState

    package init(_ db: Database, _ identities: NewIdentities) throws {
        guard let state = try ReplicaState.load(db) else {
            throw AnnalsError.notJoined(operation: "sync")
        }
        self.db = db
        self.identities = identities
        self.state = state
    }

    /// Throws if the relay was found to show different logs. Then all exchanges with it are stopped.
    package func checkLog() throws {
        guard state.hasEvidence, let evidence = try LogEvidence.load(db) else { return }
        throw evidence.error
    }

    package func status() throws -> ExchangeStatus {
        ExchangeStatus(
            replica: state.replica, space: state.space, seen: state.seen, pulled: try BufferedParts.last(db) ?? state.position,
            head: state.head, accepted: max(state.position, try Outbox.lastAhead(db) ?? .zero), outbox: try Outbox.count(db),
            isPushUnderWay: try Push.isUnderWay(db),
            areRowsUnverified: try UnverifiedRows.isNoted(db), isSpaceUnfinished: try Meta(db).text(.joinStage) != nil,
            unexplainedVoids: try PassedVoids.load(db).first?.position,
            schemaVersion: try SpaceSchema.version(db), isBehindSchema: try !MissingSchema.load(db).isEmpty,
            isWaitingForMigration: try MigrationBarrier(db).first() != nil)
    }

    package func freeze(_ step: StoreStep) throws -> FrozenPush? {
        if let push = try Push.load(db) { return try frozen(push, part: 0) }
        try UnverifiedRows.check(db)
        var limits = step.outboxLimits
        // While a space is created, only its first entry is sent, because its first rows may be copied again.
        if try Meta(db).text(.joinStage) != nil { limits.pushTransactions = 1 }
        // A store that follows a restored relay sends its schema again, before the transactions that use it.
        if try Meta(db).integer(.isCopy) != nil { try PendingSchemaEntries.moveFirst(db) }
        let cipher = try step.cipher()
        var new = try Push.freeze(db, state, layouts: step.layouts(), limits: limits, cipher: cipher).map { try frozen($0, part: 0) }
        if new != nil, let cipher { try Meta(db).set(.sealedUnder, SpaceKey.name(of: cipher.keyID)) }
        new?.isNew = true
        return new
    }

    /// Another part of a push; nil if that push is settled.
    package func part(_ number: Int, of sent: FrozenPush) throws -> FrozenPush? {
        guard let push = try Push.load(db), push.digests == sent.digests else { return nil }
        return try frozen(push, part: number)
    }

    private func frozen(_ push: Push, part: Int) throws -> FrozenPush {
        FrozenPush(
            batch: try push.batch(db, part: part), seen: state.seen, digests: push.digests, part: part, parts: push.parts,
            firstCounter: push.firstCounter)
    }

    /// Records which transactions of the push are in the log. The answer to a push is committed before the entries that came
    /// with it are applied.
    ///
    /// - Parameters:
    ///   - sent: The push, or the part of it, that was answered.
    ///   - now: The wall clock, in milliseconds since 1970.
    package mutating func settle(
        _ answer: PushAnswer, to sent: FrozenPush, _ limits: OutboxLimits, now: Int64
    ) throws -> SettledPush {
        // Two agents may sync one file at the same time. A late answer can then belong to a push that is settled already.
        guard let push = try Push.load(db), push.digests == sent.digests else { return try unsettled() }
        try check(answer, sent)
        switch answer.outcome {
        case .wait, .partsMissing: return try unsettled()
        case .accepted where sent.parts > 1 && answer.positions.isEmpty: return try unsettled()
        case .logRolledBack: throw Self.logRolledBack
        // The relay accepted the counter before this one and does not have it any more. So it was restored from an older backup.
        case .gap where try Outbox.lastAhead(db) != nil: throw Self.logRolledBack
        case .identityConflict, .gap: return try takeNewIdentity()
        case .accepted, .stale: break
        }
        let settled = try accept(Self.positions(answer, sent), at: answer.receivedAt, push, limits, now: now)
        try Push.thaw(db)
        state.head = max(state.head, answer.head)
        try advanceThroughOwn()
        try state.saveProgress(db)
        return SettledPush(
            status: try status(), transactions: settled.transactions, changes: settled.changes, journal: settled.journal,
            delays: settled.delays)
    }

    /// Checks that an answer names this push, and that its positions are possible.
    private func check(_ answer: PushAnswer, _ sent: FrozenPush) throws {
        let isWhole = sent.parts == 1
        guard answer.push == sent.name, answer.push.replica == state.replica else { throw Self.otherAnswer }
        guard answer.lineage == state.lineage || answer.outcome == .logRolledBack else { throw Self.logRolledBack }
        // An accepted transaction comes after the log that its author has seen.
        guard answer.positions.allSatisfy({ $0 > state.position && $0 <= answer.head }) else { throw Self.otherAnswer }
        if isWhole, answer.outcome == .accepted, answer.positions.count != sent.digests.count { throw Self.otherAnswer }
    }

    private static var otherAnswer: AnnalsError {
        AnnalsError(
            .notARelay, operation: "sync", "the relay's answer does not belong to the push that was sent",
            hint: "Nothing was changed, and the push is kept. Run sync again. If the error persists, a proxy may repeat old answers",
            isRetryable: true)
    }

    private func unsettled() throws -> SettledPush {
        SettledPush(status: try status(), transactions: 0, changes: 0)
    }

    /// The relay has other transactions under this replica's counters. So the file is a copy of a replica, or a restored backup. It
    /// becomes a new replica. Its transactions keep their ids, so those that the other copy has pushed already are recognized and
    /// dropped when they are pulled (merge rule 39).
    private mutating func takeNewIdentity() throws -> SettledPush {
        // From now on the writes of the other file belong to another author.
        try AuthorChains.save(db, nil, of: state.replica)
        state.take(newIdentity: try identities.key())
        try state.save(db)
        try Meta(db).set(.isCopy, 1)
        try Push.thaw(db)
        return try unsettled()
    }

    /// The positions of the push's transactions. The parts of one transaction have consecutive positions.
    private static func positions(_ answer: PushAnswer, _ sent: FrozenPush) throws -> [Position] {
        guard sent.parts > 1 else {
            guard answer.positions.count <= sent.digests.count else { throw WireError.badLength }
            return answer.positions
        }
        guard let position = answer.positions.first else { return [] }
        guard answer.positions.count == 1, position.rawValue > Int64(sent.part) else { throw WireError.badLength }
        return (0..<sent.parts).map { position.advanced(by: $0 - sent.part) }
    }

    private mutating func accept(
        _ positions: [Position], at receivedAt: Int64, _ push: Push, _ limits: OutboxLimits, now: Int64
    ) throws -> (transactions: Int, changes: Int, journal: JournalGrowth, delays: Delays) {
        guard !positions.isEmpty else { return (0, 0, JournalGrowth(), Delays()) }
        let accepted = try Outbox.heads(db, through: push.lastSequence, limit: push.parts > 1 ? 1 : positions.count)
        guard accepted.count == (push.parts > 1 ? 1 : positions.count) else { throw Corruption(OwnTables.outbox) }
        for (position, digest) in zip(positions, push.digests) { try Outbox.noteAhead(db, position, digest) }
        try keep(positions, of: push, in: RecentLog(db, limits))
        var growth = JournalGrowth()
        for (index, row) in accepted.enumerated() where row.journal > 0 {
            growth += try journal(row, at: push.parts > 1 ? positions[positions.count - 1] : positions[index], receivedAt)
        }
        state.lastCounter = Counter(push.firstCounter.rawValue + Int64(positions.count) - 1)
        state.lastDigest = push.digests[positions.count - 1]
        try takeOwnSchemas(accepted, through: positions[positions.count - 1])
        guard let last = accepted.last else { return (0, 0, growth, Delays()) }
        let serializable = try Outbox.serializable(db)
        try Outbox.delete(db, through: last.sequence)
        if let serializable, serializable <= last.sequence { try SerializableTable(db).settle(.ordered) }
        let delays = accepted.reduce(into: Delays()) { $0.add(milliseconds: now - $1.time) }
        return (accepted.count, accepted.reduce(0) { $0 + $1.changes }, growth, delays)
    }

    private func keep(_ positions: [Position], of push: Push, in log: RecentLog) throws {
        let digest = positions[0] == state.position.next ? state.logDigest : nil
        guard push.parts > 1 else {
            return try log.keepPushed(push.firstCounter, positions, after: digest)
        }
        for (part, position) in positions.enumerated() {
            let counter = Counter(push.firstCounter.rawValue + Int64(part))
            try log.keepPushed(counter, [position], after: part == 0 ? digest : nil)
        }
    }

    /// Accepted transactions count as pulled for the space's schema and for deferred cells.
    private func takeOwnSchemas(_ accepted: [Outbox.Head], through last: Position) throws {
        guard try db.tableExists(OwnTables.schemaOffers) else { return }
        let layouts = try LayoutNames(db).all
        let kept = try DeferredCells.load(db)
        for head in accepted {
            guard let row = try Outbox.row(db, sequence: head.sequence) else { throw Corruption(OwnTables.outbox) }
            let isOffer = try PendingSchemaEntries.isNoted(db, row.id)
            guard kept != nil || isOffer else { continue }
            let content = try Outbox.content(db, of: row, layouts: layouts)
            if let kept { try DeferredChanges(kept).follow(content) }
            guard isOffer else { continue }
            if let entry = try content.rest({ _, _ in }).schema {
                try RecentLog.noteSchema(db, before: last)
                try SpaceSchema.take(entry, db, MergeSession(db, registry: TrackedTables.load(db)))
            }
            try PendingSchemaEntries.forget(db, row.id)
        }
    }

    private func journal(_ head: Outbox.Head, at position: Position, _ receivedAt: Int64) throws -> JournalGrowth {
        guard let row = try Outbox.row(db, sequence: head.sequence) else { throw Corruption(OwnTables.outbox) }
        let content = try Outbox.content(db, of: row, layouts: [:])
        let info = try content.info()
        var growth = JournalGrowth()
        _ = try content.rest { entries, first in
            growth += try ConflictJournal.append(
                db, entries, from: first, transaction: info, replica: state.replica, position: position, receivedAt: receivedAt,
                own: state.replica)
        }
        return growth
    }

    /// The rows hold own entries already, so the position passes them without a pull.
    private mutating func advanceThroughOwn() throws {
        let position = state.position
        while let entry = try Outbox.pass(db, state.position.next) { state.pass(entry.digest) }
        // Buffered parts of other authors at these positions belong to a log that the relay lost in a restore from an older backup.
        if state.position > position { try BufferedParts.clear(db) }
    }

    package static var logRolledBack: AnnalsError { .relayRolledBack(operation: "sync") }
}

extension AnnalsError {
    /// The store is not a replica.
    package static func notJoined(operation: String) -> AnnalsError {
        AnnalsError(
            .notJoined, operation: operation, "the store has not joined a space",
            hint: "Create the agent with the address of the space (joining:)", commandHint: "Run annals join first")
    }

    /// The relay's log differs from the one that was seen before, or is shorter.
    package static func relayRolledBack(operation: String) -> AnnalsError {
        let state = "The relay was restored from an older backup. Nothing was changed, and local work can continue."
        let effect = "to accept the relay and send it the lost entries again"
        return AnnalsError(
            .relayRolledBack, operation: operation, "the relay's log is shorter than the log seen before, or differs from it",
            hint: "\(state) Call sync(restoredRelay: .follow) \(effect)",
            commandHint: "\(state) Run annals sync --follow-relay \(effect)")
    }
}
