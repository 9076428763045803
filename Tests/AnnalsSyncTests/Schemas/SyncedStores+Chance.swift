import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import RelayLog
import SeededRandom

/// Steps of random worlds that do not change the schema.
extension SyncedStores {
    /// Syncs a replica, sometimes over a faulty network or without sending.
    func sync(_ index: Int, by random: inout SeededGenerator) async throws {
        if random.chance(20) {
            let (pageBytes, isPushLost, isPullLost) = (random.chance(50) ? 400 : Int.max, random.chance(50), random.chance(50))
            let moment = random.chance(50) ? AlteredRelay.Moment.after : .before
            let pushing = AlteredRelay.failing(relay, .push, from: isPushLost ? 1 : .max, moment)
            let faulty = AlteredRelay.failing(pushing, .pull, from: isPullLost ? 2 : .max, pageBytes: pageBytes)
            _ = try? await sync(index, over: faulty)
        } else {
            try await sync(index, random.chance(20) ? .pullOnly : .both)
        }
    }

    /// Makes a snapshot, and usually purges the log before it.
    func snapshot(_ index: Int, by random: inout SeededGenerator) async throws {
        let made = try await SyncAgent(store: stores[index], transport: relay, environment: environment).makeSnapshot()
        guard made != nil, random.chance(60) else { return }
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await relay.purge(rules)
    }

    /// Writes as another program, or through the store. Constraints refuse some writes.
    func write(_ index: Int, _ sql: [String], by random: inout SeededGenerator) async {
        if Bool.random(using: &random) {
            try? outside(index, sql.joined(separator: ";"))
        } else {
            _ = try? await stores[index].write(author: "test") { db in
                for statement in sql { try db.execute(sql: statement) }
            }
        }
    }
}
