package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The store's hybrid clock, kept in the file because every process that records shares it.
///
/// What is sealed here moves it through the table of transactions itself, whose newest row is read anyway. Only times seen
/// elsewhere need `save`: whoever records an imported transaction loads the clock first, observes, and saves it.
package enum StoreClock {
    /// The clock as of the newest transaction and of everything saved.
    package static func load(_ db: Database) throws -> HybridClock {
        let saved = try saved(db)
        let newest = try TransactionTable(db).newestTime()
        // An imported transaction bears its author's clock, which may be wrong by years.
        guard let newest, try newest.value("origin") != TransactionOrigin.imported.rawValue else { return HybridClock(last: saved) }
        return HybridClock(
            last: max(saved, HybridTime(milliseconds: try newest.value("time"), counter: try newest.value("time_counter"))))
    }

    /// The time that was saved. Throws `Corruption`.
    package static func saved(_ db: Database) throws -> HybridTime {
        guard let text = try StoreSchema.text(.clock, db) else { return .zero }
        guard let time = time(from: text), SchemaLimits.facts.contains(time.milliseconds) else { throw Corruption("annals_meta.clock") }
        return time
    }

    /// Keeps the clock's latest time.
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
    /// Another program's writes, recorded later.
    case external = 1
    /// A schema change.
    case migration = 2
    /// Pulled from the space.
    case imported = 3
    /// The outbox laid on top of what was pulled.
    case rebase = 4

    /// Those of the store's own work, which travel.
    package static let own: [TransactionOrigin] = [.local, .external, .migration]
}
