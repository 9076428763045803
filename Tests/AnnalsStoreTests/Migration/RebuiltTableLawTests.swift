import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// Law 8 with changes of the schema: at every token a replay has the current columns. Each has the values that the same column had then
/// under any name, or its default if it did not exist. `ANNALS_SEED=n swift test --filter RebuiltTableLawTests` replays one seed.
@Suite struct RebuiltTableLawTests {
    static let seeds = Seeds.given ?? Array(1...16)

    /// A column, identified independently of its name.
    private struct Column: Hashable {
        var number: Int
        var name: String
        /// In the form of `quote`.
        var fallback: String

        var declared: String { "\(name)\(fallback == "NULL" ? "" : " DEFAULT \(fallback)")" }
    }

    private final class Model {
        var random: SeededGenerator
        var columns: [Column] = []
        private var count = 0

        init(_ seed: UInt64) {
            random = SeededGenerator(seed: seed)
            for _ in 0..<3 { columns.append(newColumn()) }
        }

        /// There are few names, so that they are used again.
        func newColumn(_ isAdded: Bool = false) -> Column {
            count += 1
            let free = ["a", "b", "c", "d", "e"].filter { name in !columns.contains { $0.name == name } }
            return Column(number: count, name: random.one(of: free), fallback: isAdded ? random.one(of: ["NULL", "'x'", "7"]) : "NULL")
        }

        func value() -> String { random.one(of: ["NULL", "1", "2.5", "'t'", "x'00ff'", "'a longer text'"]) }

        func write() -> String {
            let key = random.one(of: ["'k1'", "'k2'", "'k3'", "'k4'", "'k5'"])
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4:
                let values = columns.map { _ in value() }.joined(separator: ", ")
                return "INSERT OR REPLACE INTO t(k, \(columns.map(\.name).joined(separator: ", "))) VALUES (\(key), \(values))"
            case 4..<5: return "DELETE FROM t WHERE k = \(key)"
            case 5..<6: return "UPDATE OR REPLACE t SET k = \(random.one(of: ["'k1'", "'k6'"])) WHERE k = \(key)"
            default: return "UPDATE t SET \(random.one(of: columns).name) = \(value()) WHERE k <= \(key)"
            }
        }

        func writes() -> String { (0..<Int.random(in: 1...3, using: &random)).map { _ in write() }.joined(separator: "; ") }

        /// A change of the schema by any program.
        func change() -> String {
            let place = Int.random(in: columns.indices, using: &random)
            if columns.count < 5, random.chance(50) {
                let column = newColumn(true)
                columns.append(column)
                return "ALTER TABLE t ADD COLUMN \(column.declared)"
            }
            guard columns.count < 5 else { return write() }
            let old = columns[place].name
            columns[place].name = newColumn().name
            return "ALTER TABLE t RENAME COLUMN \(old) TO \(columns[place].name)"
        }

        /// A change of the schema by a migration.
        func migration() -> String {
            var statements = random.chance(30) ? [write()] : []
            if columns.count > 1, random.chance(40) {
                let gone = columns.remove(at: Int.random(in: columns.indices, using: &random))
                statements.append("ALTER TABLE t DROP COLUMN \(gone.name)")
            } else {
                statements += rebuild()
            }
            if random.chance(40) { statements.append(write()) }
            return statements.joined(separator: ";\n")
        }

        private func rebuild() -> [String] {
            var new = columns
            if new.count > 1, random.chance(40) { new.remove(at: Int.random(in: new.indices, using: &random)) }
            let kept = new
            if columns.count < 5, random.chance(40) { new.append(newColumn(true)) }
            new.shuffle(using: &random)
            func names(_ columns: [Column]) -> String { (["k"] + columns.map(\.name)).joined(separator: ", ") }
            let check = random.chance(30) ? ", CHECK (k <> 'x')" : ""
            let changed = random.chance(30) ? random.one(of: kept).number : nil
            let selected = ["k"] + kept.map { $0.number == changed ? "'changed'" : $0.name }
            func fill(_ new: String, _ old: String) -> String {
                "INSERT INTO \(new)(\(names(kept))) SELECT \(selected.joined(separator: ", ")) FROM \(old)"
            }
            func create(_ name: String) -> String {
                "CREATE TABLE \(name)(k TEXT PRIMARY KEY NOT NULL, \(new.map(\.declared).joined(separator: ", "))\(check))"
            }
            columns = new
            return random.chance(50)
                ? [create("u"), fill("u", "t"), "DROP TABLE t", "ALTER TABLE u RENAME TO t"]
                : ["ALTER TABLE t RENAME TO u", create("t"), fill("t", "u"), "DROP TABLE u"]
        }
    }

    private typealias Rows = [String: [Int: String]]

    private func rows(_ path: String, _ columns: [Column]) throws -> Rows {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { db in
            let list = columns.map { "quote(\($0.name))" }.joined(separator: ", ")
            var rows: Rows = [:]
            for row in try Row.fetchAll(db, sql: "SELECT k, \(list) FROM t") {
                let values: [String] = columns.indices.map { row[$0 + 1] }
                rows[row[0]] = Dictionary(uniqueKeysWithValues: zip(columns.map(\.number), values))
            }
            return rows
        }
    }

    @Test("Law 8: every token is reached through renames, drops, additions and rebuilds", arguments: seeds)
    func everyToken(seed: UInt64) async throws {
        let file = try TemporaryFile()
        let model = Model(seed)
        func outside(_ sql: String) throws {
            let queue = try DatabaseQueue(path: file.path)
            try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
            try queue.close()
        }
        try outside("CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, \(model.columns.map(\.declared).joined(separator: ", ")))")
        try outside(model.writes())
        var configuration = Store.Configuration()
        if seed % 2 == 0 { configuration.largeValue = 0 }
        let store = try Store(path: file.path, configuration: configuration)
        _ = try await store.track(.all)
        var known: [(token: HistoryToken, rows: Rows)] = []
        for step in 0..<30 {
            switch Int.random(in: 0..<10, using: &model.random) {
            case 0..<2: try outside(model.change())
            case 2..<5: _ = try await store.migrate(label: "step \(step)", sql: model.migration())
            default: try outside(model.writes())
            }
            let token = try await store.latestToken()
            let rows = try rows(file.path, model.columns)
            if known.last?.token == token {
                // The added column is in the rows of the known token only from now on.
                known[known.count - 1].rows = rows
            } else {
                known.append((token, rows))
            }
        }
        #expect(try await store.verify().isEmpty, "seed \(seed)")
        for (number, (token, then)) in known.enumerated() {
            let path = file.folder.appendingPathComponent("at-\(number).db").path
            _ = try await store.replay(to: token, output: path)
            let expected = then.mapValues { values in
                Dictionary(uniqueKeysWithValues: model.columns.map { ($0.number, values[$0.number] ?? $0.fallback) })
            }
            let found = try rows(path, model.columns)
            #expect(found == expected, "seed \(seed), \(token)")
        }
        #expect(known.count > 10, "seed \(seed)")
    }
}
