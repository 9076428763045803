import AnnalsCore
import AnnalsStore
import GRDB
import Synchronization

/// Programs that read a store's history, and purges that drop its beginning (laws 8 and 10).
extension World {
    func purgeHistory(_ store: Store, _ replica: Replica, _ aim: Step.HistoryPurge, _ isForced: Bool) async throws {
        let mode: PurgeMode = isForced ? .force : .respectingConsumers
        replica.isPurgeForced = isForced
        defer { replica.isPurgeForced = false }
        switch aim {
        case .token(let number):
            guard !replica.memories.isEmpty else { return }
            let token = replica.memories[number % replica.memories.count].token
            try await purge(store, replica, before: token, mode)
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

    /// The token stays, and what is before it goes, if nobody needs it.
    private func purge(_ store: Store, _ replica: Replica, before token: HistoryToken, _ mode: PurgeMode) async throws {
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
        if replica.power.isDead || replica.mayHoldUnseen { return }
        guard isExpired == (token.number < purged) else {
            throw Violation("law 8", "\(replica.name) purged up to \(purged), and \(token) is\(isExpired ? "" : " not") taken for one that expired")
        }
        let now = replica.look.purged
        guard now <= max(purged, token.number - 1), mode != .force || isExpired || now == max(purged, token.number - 1) else {
            throw Violation("law 10", "\(replica.name) was to purge before \(token), and did up to \(now)")
        }
    }

    /// Nothing remains below the horizon but the newest transaction.
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

    /// Law 10: a purge leaves what somebody still needs, unless it is forced; and unpushed work is pushed in any case.
    func checkPurge(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        guard now.purged != before.purged else { return }
        trace.note("  \(replica.name) purged its history up to \(now.purged)")
        guard now.purged > before.purged else { throw Violation("law 10", "\(replica.name) has purged less than before") }
        for (number, reader) in replica.readers where reader.number < now.purged && !reader.isUnclear && !reader.isExpired {
            guard replica.isPurgeForced else {
                throw Violation("law 10", "\(replica.name) purged up to \(now.purged), and reader \(number) is at \(reader.number)")
            }
            replica.readers[number]?.isExpired = true
        }
        if replica.isPurgeForced || replica.mayHoldUnseen { return }
        // What lies before a table's history began anew can be read by nobody anyhow.
        let gap = try replica.read { db in try Int64.fetchOne(db, sql: "SELECT max(gap) FROM annals_tables") ?? 0 }
        if now.purged <= gap { return }
        let unmoved = ledger.intents(of: replica.name, in: now.outboxed..<Int64.max).filter { $0.number <= now.purged }
        let unsent = now.outbox.compactMap { ledger.intents[$0.id] }.filter { $0.replica == replica.name && $0.number <= now.purged }
        for intent in unmoved + unsent where intent.number > 0 {
            throw Violation("law 10", "\(replica.name) purged up to \(now.purged), and its transaction \(intent.number) is not pushed")
        }
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
            if !reader.isUnclear { try check(reader, number, of: replica, limit, found, isExpired) }
            reader = Replica.Reader(number: isExpired ? replica.seenNumber : found.last ?? replica.seenNumber)
            if found.count < limit { reader.number = replica.seenNumber }
        }
        replica.readers[number] = reader
    }

    /// It gets what it has not read, in order, each once; and where that is gone it is told.
    private func check(
        _ reader: Replica.Reader, _ number: Int, of replica: Replica, _ limit: Int, _ found: [Int64], _ isExpired: Bool
    ) throws {
        guard isExpired == reader.isExpired else {
            throw Violation("law 10", "\(replica.name)'s reader \(number) at \(reader.number) is\(isExpired ? "" : " not") told that it expired")
        }
        let end = min(replica.seenNumber, reader.number + Int64(limit))
        let expected = isExpired || end <= reader.number ? [] : Array(reader.number + 1...end)
        guard found != expected else { return }
        throw Violation("law 10", "\(replica.name)'s reader \(number) at \(reader.number) gets \(found) and not \(expected)")
    }

    private func register(_ store: Store, _ replica: Replica, _ number: Int) async throws {
        try await attempt(replica) { try await store.register(Replica.Reader.consumer(number)) }
        try observe(replica, after: .seal)
        let isUnclear = replica.power.isDead || replica.mayHoldUnseen
        // Whoever died may have been registered or not.
        if !replica.power.isDead { replica.readers[number] = Replica.Reader(number: replica.seenNumber, isUnclear: isUnclear) }
    }
}

extension Replica {
    /// A table's history begins anew, and readers find out.
    func forgetReaders() {
        for number in readers.keys { readers[number]?.isUnclear = true }
    }
}
