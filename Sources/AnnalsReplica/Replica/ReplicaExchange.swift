package import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// Where a joined store stands in an exchange.
package struct ExchangeStatus: Sendable {
    package var replica: ReplicaID
    package var space: SpaceName
    /// What is known here of the log; the relay's must agree with it.
    package var seen: LogMark
    package var position: Position { seen.position }
    /// The log is here up to this position: beyond `position` lie parts of a transaction whose last part is still to come.
    package var pulled: Position
    package var head: Position
    /// The relay has said that its log holds this replica's work up to here, which may be beyond `position`.
    package var accepted: Position
    /// Local transactions that the space has not ordered yet, those under way included.
    package var outbox: Int
    package var isPushUnderWay: Bool
    /// The rows must be compared with the log before anything is exchanged; see `UnverifiedRows`.
    package var areRowsUnverified: Bool
    /// The join that makes the space is not done: see `CreationStage`.
    package var isSpaceUnfinished: Bool
    /// Conflicts settled just now, before anything came: among this store's own writes, where a program broke references with checks
    /// off, and between them and what was kept until the store had migrated.
    package var conflicts = 0
    /// The page that came last ended before own entries that the position has passed: whether the relay's log still has
    /// them there, its next answer tells (merge rule 41).
    package var hasPassedUnseen = false

    /// Entries that were voided, as the relay's answer had it, which no entry of the log explains so far.
    package var unexplainedVoids: Position?

    /// Of the space's schema, as far as the log is applied here.
    package var schemaVersion: Int64 = 1
    /// The space has tables or columns that this store lacks: what the log says there is kept until the store has migrated.
    package var isBehindSchema = false
    /// Work waits in the outbox until the store has migrated; see `MigrationBarrier`.
    package var isWaitingForMigration = false

    /// The relay has told of entries that are not applied yet, or has more to tell.
    package var isBehind: Bool { position < head || hasPassedUnseen }
}

/// A push whose bytes stay as they are until the relay has given a definite answer.
///
/// A transaction too large for one batch is sent in parts, one after another, from the first; the answer to the last of
/// them, or one that refuses, settles all.
package struct FrozenPush: Sendable {
    /// The bytes to send: the batch, or this part's.
    package var batch: [UInt8]
    /// What this replica has seen of the log.
    package var seen: LogMark
    /// Of its transactions or parts, in order: which push an answer belongs to.
    package var digests: [Digest]
    /// Which part this is, from 0.
    package var part = 0
    /// How many parts there are; 1 for whole batches.
    package var parts = 1
    /// The counter of the first of them.
    package var firstCounter: Counter
    /// It was frozen just now, so nobody can have sent it yet.
    package var isNew = false

    /// What an answer to these bytes names.
    package var name: PushName {
        PushName(
            replica: seen.replica ?? .relay, firstCounter: Counter(firstCounter.rawValue + Int64(part)),
            lastDigest: (parts > 1 && digests.indices.contains(part) ? digests[part] : digests.last) ?? .zero)
    }
}

/// What the relay's answer to a push settled.
package struct SettledPush: Sendable {
    package var status: ExchangeStatus
    /// Accepted now.
    package var transactions: Int
    package var changes: Int
}

/// What a page of the log brought.
package struct AppliedPage: Sendable {
    package var status: ExchangeStatus
    package var transactions = 0
    package var changes = 0
    package var bytes = 0
    /// Conflicts settled here while the outbox was laid on top.
    package var conflicts = 0
    /// Conflicts that others settled, in which a value of this replica's own lost.
    package var lost = 0

    package init(status: ExchangeStatus, transactions: Int = 0, changes: Int = 0, bytes: Int = 0, conflicts: Int = 0, lost: Int = 0) {
        self.status = status
        self.transactions = transactions
        self.changes = changes
        self.bytes = bytes
        self.conflicts = conflicts
        self.lost = lost
    }
}

/// The replica's half of an exchange, inside a write transaction. What it does is in the order in which a transaction travels:
/// seal and fill the outbox, freeze a push, settle its answer, take in what others wrote.
package struct ReplicaExchange {
    package let db: Database
    package let identities: NewIdentities
    package var state: ReplicaState

    package init(_ db: Database, _ identities: NewIdentities) throws {
        guard let state = try ReplicaState.load(db) else {
            throw AnnalsError(.notJoined, operation: "sync", "the store is not joined to a space", hint: "Run annals join first")
        }
        self.db = db
        self.identities = identities
        self.state = state
    }

    /// Throws where the relay was found to show different logs: nothing more is exchanged with it.
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
        // While a space is made only its first entry is sent, since its first rows may be copied anew.
        if try Meta(db).text(.joinStage) != nil { limits.pushTransactions = 1 }
        // A store that follows a restored relay offers its schema again, before the work that uses it.
        if try Meta(db).integer(.isCopy) != nil { try PendingSchemaEntries.moveFirst(db) }
        let cipher = try step.cipher()
        var new = try Push.freeze(db, state, layouts: step.layouts(), limits: limits, cipher: cipher).map { try frozen($0, part: 0) }
        if new != nil, let cipher { try Meta(db).set(.sealedUnder, SpaceKey.name(of: cipher.keyID)) }
        new?.isNew = true
        return new
    }

    /// Another part of a push; nil when that push is settled.
    package func part(_ number: Int, of sent: FrozenPush) throws -> FrozenPush? {
        guard let push = try Push.load(db), push.digests == sent.digests else { return nil }
        return try frozen(push, part: number)
    }

    private func frozen(_ push: Push, part: Int) throws -> FrozenPush {
        FrozenPush(
            batch: try push.batch(db, part: part), seen: state.seen, digests: push.digests, part: part, parts: push.parts,
            firstCounter: push.firstCounter)
    }

    /// Takes note of which transactions of the push are in the log now. A push answer is committed before the entries
    /// that came with it are applied.
    ///
    /// - Parameter sent: the push that was answered, or the part of it.
    package mutating func settle(_ answer: PushAnswer, to sent: FrozenPush, _ limits: OutboxLimits) throws -> SettledPush {
        // Two agents may sync one file at once: an answer that comes late belongs to a push that is settled.
        guard let push = try Push.load(db), push.digests == sent.digests else { return try unsettled() }
        try check(answer, sent)
        switch answer.outcome {
        case .wait, .partsMissing: return try unsettled()
        case .accepted where sent.parts > 1 && answer.positions.isEmpty: return try unsettled()
        case .logRolledBack: throw Self.logRolledBack
        // Counters that follow on what the relay took, and it does not know that any more: it was restored from an older backup.
        case .gap where try Outbox.lastAhead(db) != nil: throw Self.logRolledBack
        case .identityConflict, .gap: return try takeNewIdentity()
        case .accepted, .stale: break
        }
        let settled = try accept(Self.positions(answer, sent), at: answer.receivedAt, push, limits)
        try Push.thaw(db)
        state.head = max(state.head, answer.head)
        try advanceThroughOwn()
        try state.saveProgress(db)
        return SettledPush(status: try status(), transactions: settled.transactions, changes: settled.changes)
    }

    /// An answer counts for the push that it names, and says of its transactions what can be true of them.
    private func check(_ answer: PushAnswer, _ sent: FrozenPush) throws {
        let isWhole = sent.parts == 1
        guard answer.push == sent.name, answer.push.replica == state.replica else { throw Self.otherAnswer }
        guard answer.lineage == state.lineage || answer.outcome == .logRolledBack else { throw Self.logRolledBack }
        // What is accepted comes after what its author had seen.
        guard answer.positions.allSatisfy({ $0 > state.position && $0 <= answer.head }) else { throw Self.otherAnswer }
        if isWhole, answer.outcome == .accepted, answer.positions.count != sent.digests.count { throw Self.otherAnswer }
    }

    private static var otherAnswer: AnnalsError {
        AnnalsError(
            .notARelay, operation: "sync", "the relay's answer does not belong to the push that was sent",
            hint: "Nothing was changed, and the push is kept. Run sync again; if this stays, a proxy on the way repeats old answers",
            isRetryable: true)
    }

    private func unsettled() throws -> SettledPush {
        SettledPush(status: try status(), transactions: 0, changes: 0)
    }

    /// The relay holds other work under this replica's counters: the file is a copy of a replica, or a restored backup.
    /// From here on it is a replica of its own. Its transactions keep their ids, so what the space holds already through
    /// the other copy is recognised and dropped when it is pulled (merge rule 39).
    private mutating func takeNewIdentity() throws -> SettledPush {
        // From now on what the other file writes is another author's.
        try AuthorChains.save(db, nil, of: state.replica)
        state.take(newIdentity: try identities.key())
        try state.save(db)
        try Meta(db).set(.isCopy, 1)
        try Push.thaw(db)
        return try unsettled()
    }

    /// Where the push's transactions are in the log, or the parts of its one: these lie next to each other.
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
        _ positions: [Position], at receivedAt: Int64, _ push: Push, _ limits: OutboxLimits
    ) throws -> (transactions: Int, changes: Int) {
        guard !positions.isEmpty else { return (0, 0) }
        let accepted = try Outbox.heads(db, through: push.lastSequence, limit: push.parts > 1 ? 1 : positions.count)
        guard accepted.count == (push.parts > 1 ? 1 : positions.count) else { throw Corruption("annals_outbox") }
        for (position, digest) in zip(positions, push.digests) { try Outbox.noteAhead(db, position, digest) }
        try keep(positions, of: push, in: RecentLog(db, limits))
        for (index, row) in accepted.enumerated() where row.journal > 0 {
            try journal(row, at: push.parts > 1 ? positions[positions.count - 1] : positions[index], receivedAt)
        }
        state.lastCounter = Counter(push.firstCounter.rawValue + Int64(positions.count) - 1)
        state.lastDigest = push.digests[positions.count - 1]
        try takeOwnSchemas(accepted, through: positions[positions.count - 1])
        if let last = accepted.last { try Outbox.delete(db, through: last.sequence) }
        return (accepted.count, accepted.reduce(0) { $0 + $1.changes })
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

    /// What was accepted is as good as pulled: for the space's schema, and for what this store lacks of it.
    private func takeOwnSchemas(_ accepted: [Outbox.Head], through last: Position) throws {
        guard try db.tableExists("annals_schema_offers") else { return }
        let layouts = try LayoutNames(db).all
        let kept = try DeferredCells.load(db)
        for head in accepted {
            guard let row = try Outbox.row(db, sequence: head.sequence) else { throw Corruption("annals_outbox") }
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

    private func journal(_ head: Outbox.Head, at position: Position, _ receivedAt: Int64) throws {
        guard let row = try Outbox.row(db, sequence: head.sequence) else { throw Corruption("annals_outbox") }
        let content = try Outbox.content(db, of: row, layouts: [:])
        let info = try content.info()
        _ = try content.rest { entries, first in
            try ConflictJournal.append(
                db, entries, from: first, transaction: info, replica: state.replica, position: position, receivedAt: receivedAt)
        }
    }

    /// Own entries that come next in the log are in the rows already, so the position passes them without a pull.
    private mutating func advanceThroughOwn() throws {
        let position = state.position
        while let entry = try Outbox.pass(db, state.position.next) { state.pass(entry.digest) }
        // Parts of others' that stood there are of a log that the relay lost when it was put back to an older backup.
        if state.position > position { try BufferedParts.clear(db) }
    }

    package static var logRolledBack: AnnalsError { .relayRolledBack(operation: "sync") }
}

extension AnnalsError {
    /// The relay has another log than the one that was seen before, or less of it.
    package static func relayRolledBack(operation: String) -> AnnalsError {
        AnnalsError(
            .relayRolledBack, operation: operation, "the relay's log is shorter than, or other than, the one seen before",
            hint: "It was restored from an older backup; nothing was changed, and local work goes on. "
                + "Run annals sync --follow-relay to send again what the relay lost and go on with it")
    }
}
