import AnnalsCore
import AnnalsHistory
import AnnalsStore
import GRDB
import Synchronization

/// Readers of a store's history, and purges of its old part (laws 8 and 10).
extension SimulatedSpace {
    func purgeHistory(_ store: Store, _ replica: Replica, _ aim: Step.HistoryPurge, _ isForced: Bool) async throws {
        let mode: PurgeMode = isForced ? .force : .respectingConsumers
        replica.isPurgeForced = isForced
        defer { replica.isPurgeForced = false }
        switch aim {
        case .token(let number):
            guard !replica.memories.isEmpty else { return }
            let token = replica.memories[number % replica.memories.count].token
            guard try await purge(store, replica, before: token, mode) else { return }
        case .age(let age):
            areJournalsPurged = true
            try await attempt(replica) { _ = try await store.purge(.untilConsumed.keepingAtLeast(.milliseconds(age)), mode: mode) }
            try observe(replica, after: .seal)
        case .consumed:
            try await attempt(replica) { _ = try await store.purge(.untilConsumed, mode: mode) }
            try observe(replica, after: .seal)
        }
        if !replica.power.isDead, !replica.mayHoldUnseen { try checkFreed(replica) }
    }

    /// Purges the history before the token that is not needed. The token must stay valid. Returns false if the token has expired.
    private func purge(_ store: Store, _ replica: Replica, before token: HistoryToken, _ mode: PurgeMode) async throws -> Bool {
        let purged = replica.look.purged
        var isExpired = false
        try await attempt(replica) {
            do {
                _ = try await store.deleteHistory(before: token, mode: mode)
            } catch let error as AnnalsError where error.code == .tokenExpired {
                isExpired = true
            }
        }
        try observe(replica, after: .seal)
        if replica.power.isDead || replica.mayHoldUnseen { return !isExpired }
        let check = TokenPurgeCheck(
            token: token.number, before: purged, now: replica.look.purged, isForced: mode == .force, isExpired: isExpired)
        if let (law, text) = check.complaint { throw Violation(law, "\(replica.name) \(text)") }
        return !isExpired
    }

    /// Only the newest transaction may remain below the horizon.
    private func checkFreed(_ replica: Replica) throws {
        let left = try replica.read { db in
            try Int64.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM annals_transactions
                    WHERE number <= ? AND number < (SELECT max(number) FROM annals_transactions)
                    """, arguments: [replica.look.purged]) ?? 0
        }
        if left > 0 { throw Violation("law 10", "\(replica.name) purged up to \(replica.look.purged), and \(left) are left") }
    }

    func setRetention(_ store: Store, _ replica: Replica, _ age: Int64) async throws {
        areJournalsPurged = true
        try await attempt(replica) { try await store.setRetention(.untilConsumed.keepingAtLeast(.milliseconds(age))) }
        try observe(replica, after: .nothing)
    }

    /// Law 10: a purge keeps the history that is still needed, unless it is forced. Unpushed transactions are always pushed.
    func checkPurge(_ replica: Replica, _ before: Look, _ now: Look) throws {
        guard now.purged != before.purged else { return }
        trace.note("  \(replica.name) purged its history up to \(now.purged)")
        var purge = PurgeCheck(before: before.purged, now: now.purged, isForced: replica.isPurgeForced, readers: replica.readers)
        let unsent = now.outbox.compactMap { ledger.intents[$0.id] }.filter { $0.replica == replica.name }
        purge.unpushed = (ledger.intents(of: replica.name, in: now.outboxed..<Int64.max) + unsent).map(\.number).filter { $0 > 0 }
        // History before the start of a table's new history can never be read.
        if try now.purged <= gap(of: replica) || replica.mayHoldUnseen { purge.unpushed = [] }
        if let complaint = purge.complaint { throw Violation("law 10", "\(replica.name) purged up to \(now.purged), \(complaint)") }
        for number in purge.passed { replica.readers[number]?.isExpired = true }
    }

    /// The point where a table's history starts again.
    private func gap(of replica: Replica) throws -> Int64 {
        try replica.read { db in try Int64.fetchOne(db, sql: "SELECT max(gap) FROM annals_tables") ?? 0 }
    }

    // MARK: Readers

    func consume(_ store: Store, _ replica: Replica, _ number: Int, _ limit: Int) async throws {
        let consumer = Replica.Reader.consumer(number)
        guard var reader = replica.readers[number] else { return try await register(store, replica, number) }
        let seen = Mutex<[Int64]>([])
        var isExpired = false
        try await attempt(replica) {
            do {
                try await store.consume(as: consumer, limit: limit) { _, _, transactions in
                    seen.withLock { $0 = transactions.map(\.number) }
                }
            } catch let error as AnnalsError where error.code == .tokenExpired {
                isExpired = true
                try await store.startOver(consumer) { _ in }
            }
        }
        try observe(replica, after: .seal)
        if replica.power.isDead || replica.mayHoldUnseen {
            reader.isUnclear = true
        } else {
            let found = seen.withLock { $0 }
            if let complaint = reader.complaint(found, limit: limit, newest: replica.seenNumber, isReported: isExpired) {
                throw Violation("law 10", "\(replica.name)'s reader \(number) at \(reader.number) \(complaint)")
            }
            reader = Replica.Reader(number: isExpired ? replica.seenNumber : found.last ?? replica.seenNumber)
            if found.count < limit { reader.number = replica.seenNumber }
        }
        replica.readers[number] = reader
    }

    private func register(_ store: Store, _ replica: Replica, _ number: Int) async throws {
        try await attempt(replica) { try await store.register(Replica.Reader.consumer(number)) }
        try observe(replica, after: .seal)
        let isUnclear = replica.power.isDead || replica.mayHoldUnseen
        // If the process died, the reader may be registered or not.
        if !replica.power.isDead { replica.readers[number] = Replica.Reader(number: replica.seenNumber, isUnclear: isUnclear) }
    }
}

extension Replica {
    /// A table's history starts again, so the readers' positions become unknown.
    func forgetReaders() {
        for number in readers.keys { readers[number]?.isUnclear = true }
    }
}
