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
            let faulty = FaultyRelay(
                relay, pageBytes: random.chance(50) ? 400 : .max, failingPush: random.chance(50) ? 1 : .max,
                failingPull: random.chance(50) ? 2 : .max, isAnswerLost: random.chance(50))
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
