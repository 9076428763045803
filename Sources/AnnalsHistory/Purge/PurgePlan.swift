import AnnalsCore
import AnnalsSQLite
package import GRDB

/// How far a purge goes: the requested point, limited by what is still needed.
package struct PurgePlan {
    /// The last transaction to delete.
    package var number: Int64
    /// Entries of the conflict journal before this time are deleted, in milliseconds since 1970; nil: none.
    package var conflictsBefore: Int64?
    package var heldBackBy: [HistoryConsumer] = []
    package var stranded: [HistoryConsumer] = []

    /// The requested point.
    package enum Aim: Sendable {
        /// The token's transaction is not deleted.
        case before(HistoryToken)
        /// Deletes only what was committed in this store before a time, in milliseconds since 1970.
        case beforeMoment(Int64)
        case retention(HistoryRetention)
    }

    /// - Parameter push: the last transaction before those that a replica has not pushed yet; nil if all are pushed.
    package init(_ db: Database, _ aim: Aim, _ mode: PurgeMode, push: Int64?, now: Int64) throws {
        let bounds = try HistoryBounds(db)
        switch aim {
        case .before(let token):
            number = try bounds.check(token).number - 1
        case .beforeMoment(let moment):
            number = try bounds.number(before: moment, db)
            conflictsBefore = moment
        case .retention(let retention):
            try retention.check()
            number = try Self.number(retention, db, bounds, now)
            conflictsBefore = retention.keepsAll ? nil : retention.minimumAge.map { now - $0.wholeMilliseconds }
        }
        try yield(db, bounds, mode, push, now)
        number = max(number, bounds.oldest.number)
    }

    private static func number(_ retention: HistoryRetention, _ db: Database, _ bounds: HistoryBounds, _ now: Int64) throws -> Int64 {
        guard !retention.keepsAll else { return bounds.oldest.number }
        var number = bounds.latest.number
        if let age = retention.minimumAge { number = try min(number, bounds.number(before: now - age.wholeMilliseconds, db)) }
        if let fraction = retention.fraction, number > bounds.oldest.number {
            let size = try HistorySize(db)
            let room = fraction >= 1 ? Double.infinity : try size.others() * fraction / (1 - fraction)
            number = try min(number, size.number(leaving: room, bounds))
        }
        return number
    }

    /// Limits the purge to the slowest live consumer, or lists the consumers that the purge passes.
    private mutating func yield(_ db: Database, _ bounds: HistoryBounds, _ mode: PurgeMode, _ push: Int64?, _ now: Int64) throws {
        let passed = try ConsumerTable.all(db).filter { $0.number >= bounds.complete.number && $0.number < number }
        let wanted = number
        for entry in passed where mode == .respectingConsumers && !entry.hasLapsed(at: now) {
            heldBackBy.append(entry.consumer)
            number = min(number, entry.number)
        }
        if mode == .respectingConsumers, let push, push < wanted {
            heldBackBy.append(HistoryConsumer.push)
            number = min(number, push)
        }
        stranded = passed.filter { $0.number < number }.map(\.consumer)
    }
}

extension HistoryBounds {
    /// The last transaction that was committed in this store before a time, in milliseconds since 1970; that of the oldest point if
    /// the time is before it.
    package func number(before moment: Int64, _ db: Database) throws -> Int64 {
        do {
            return try token(atMilliseconds: moment - 1, db, named: "the date").number
        } catch let error as AnnalsError where error.code == .tokenExpired {
            return oldest.number
        }
    }
}
