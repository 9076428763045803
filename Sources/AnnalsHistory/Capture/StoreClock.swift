package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The store's hybrid logical clock. It is in the file, because all processes that record share it.
///
/// Recording a local transaction advances the clock through the newest row of annals_transactions, which is read anyway. Only times
/// from elsewhere need `save`: code that records an imported transaction loads the clock, observes the time, and saves the clock.
package enum StoreClock {
    /// The clock, including the newest transaction and the saved time.
    package static func load(_ db: Database) throws -> HybridClock {
        let saved = try saved(db)
        let newest = try TransactionTable(db).newestTime()
        // An imported transaction has the time of its author's clock, which may be wrong by years.
        guard let newest, try newest.value("origin") != TransactionOrigin.imported.rawValue else { return HybridClock(last: saved) }
        return HybridClock(
            last: max(saved, HybridTime(milliseconds: try newest.value("time"), counter: try newest.value("time_counter"))))
    }

    /// The saved time. Throws `Corruption`.
    package static func saved(_ db: Database) throws -> HybridTime {
        guard let text = try StoreSchema.text(.clock, db) else { return .zero }
        guard let time = time(from: text), SchemaLimits.facts.contains(time.milliseconds) else { throw Corruption(StoreSchema.Meta.clock) }
        return time
    }

    /// Saves the clock's latest time.
    package static func save(_ clock: HybridClock, _ db: Database) throws {
        try StoreSchema.set(.clock, to: "\(clock.last.milliseconds).\(clock.last.counter)", db)
    }

    private static func time(from text: String) -> HybridTime? {
        let parts = text.split(separator: ".")
        guard parts.count == 2, let milliseconds = Int64(parts[0]), let counter = UInt32(parts[1]) else { return nil }
        return HybridTime(milliseconds: milliseconds, counter: counter)
    }
}

/// How a transaction came into this store's history.
package enum TransactionOrigin: Int, Hashable, Sendable, CaseIterable {
    /// A managed write.
    case local = 0
    /// Writes of other programs, recorded later.
    case external = 1
    /// A schema change.
    case migration = 2
    /// Pulled from the space.
    case imported = 3
    /// Outbox transactions, rebased onto pulled entries.
    case rebase = 4
    /// A revert, a restore or a resolved conflict. People see it as `local`.
    case undo = 5

    /// The origins of the store's own transactions, which go to the outbox.
    package static let own: [TransactionOrigin] = [.local, .external, .migration, .undo]
}
