import AnnalsCore
import AnnalsSchema
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Law 8: history reproduces the store at every token")
struct ReplayLawTests {
    /// ANNALS_SEED=17 repeats one run, ANNALS_SEED=100-200 runs a hundred others.
    static let seeds = Seeds.given ?? Array(1...12)

    @Test("Random statements on a random schema, replayed to every token", arguments: seeds)
    func randomStatements(seed: UInt64) throws {
        var random = RandomStore(seed: seed)
        let store = try HistoryFile(random.schema, leavesOutAll: seed % 2 == 1)
        try fill(store, random.statements())
        try store.track()
        var copies: [Int64: RowDump] = [0: try store.rows()]
        let other = try DatabaseQueue(path: store.file.path, configuration: Self.defaults)
        for step in 0..<25 {
            let statements = random.statements()
            if random.random.chance(20) {
                try write(statements, to: store)
            } else if random.random.chance(15) {
                try store.file.shell((["BEGIN"] + statements + ["COMMIT"]).map { $0 + ";\n" }.joined(), stopsAtError: false)
            } else {
                try other.writeWithoutTransaction { db in try run(statements, db, isAtomic: random.random.chance(70)) }
            }
            guard let number = try recorded(store, step) else { continue }
            copies[number] = try store.rows()
        }
        try other.close()
        #expect(copies.count > 5, "seed \(seed)")
        for (number, copy) in copies.sorted(by: { $0.key < $1.key }) {
            try store.replay(to: store.token(number))
            let replayed = try RowDump(path: store.path("replayed.db"))
            #expect(replayed == copy, "seed \(seed), token \(number): \(replayed.difference(from: copy))")
        }
        #expect(try store.findings().filter { $0.code != .foreignKey } == [], "seed \(seed)")
    }

    /// The newest transaction's number, if this step recorded one.
    private func recorded(_ store: HistoryFile, _ step: Int) throws -> Int64? {
        try store.recordExternalChanges()
        let latest = try store.bounds().latest.number
        return latest == 0 ? nil : latest
    }

    private func write(_ statements: [String], to store: HistoryFile) throws {
        store.clock.milliseconds += 1_000
        try store.queue.write { db in
            _ = try TransactionRecorder.managedWrite(db, author: "test", store.environment) { db in try run(statements, db, isAtomic: false)
            }
        }
    }

    private func fill(_ store: HistoryFile, _ statements: [String]) throws {
        try store.queue.writeWithoutTransaction { db in try run(statements, db, isAtomic: true) }
    }

    /// A statement that fails does not stop the others.
    private func run(_ statements: [String], _ db: Database, isAtomic: Bool) throws {
        if isAtomic { try db.execute(sql: "BEGIN") }
        for statement in statements {
            do {
                try db.execute(sql: statement)
            } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
                continue
            }
        }
        if isAtomic { try db.execute(sql: db.isInsideTransaction ? "COMMIT" : "BEGIN; COMMIT") }
    }

    private static var defaults: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        return configuration
    }
}
