import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import SeededRandom
import Testing

/// Worlds in which every replica renames tables and columns independently, with random writes, additions, lost answers, restarts, new
/// replicas, snapshots and purges. `ANNALS_SEED=n swift test --filter RenameWorldTests` replays one seed.
@Suite struct RenameWorldTests {
    static let seeds = Seeds.given ?? Array(1...3)

    /// The names of a table on one replica, by canonical names.
    private struct Names {
        var table: String
        var columns: [String: String]
        /// All its current columns.
        var all: [String]
    }

    @Test(
        "Laws 2 and 3: replicas that call things as they like have the same rows by first names, and one name where they take it",
        arguments: seeds)
    func names(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 3, schema: ConvergenceTests.schema(seed))
        // Most of the following work happens under different names.
        for index in world.stores.indices { for _ in 0..<6 { try await rename(world, index, &random) } }
        for _ in 0..<70 {
            let index = Int.random(in: world.stores.indices, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<14: try await rename(world, index, &random)
            case 14..<16: try await add(world, index, &random)
            case 16..<40: try await world.sync(index, by: &random)
            case 40..<43: try world.reopen(index)
            case 43..<46 where world.stores.count < 5: try await world.addClone("r\(world.stores.count)")
            case 46..<49: try await world.snapshot(index, by: &random)
            default: await write(world, index, &random)
            }
        }
        try await world.settle()
        for index in world.stores.indices { #expect(try await world.stores[index].verify().isEmpty, "seed \(seed): replica \(index)") }
        for index in world.stores.indices { try world.reopen(index, newSchemas: .take) }
        try await world.settle()
        try await world.settle()
        try await world.addClone("fresh")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "seed \(seed): replicas differ; ANNALS_SEED=\(seed) replays it")
        let columns = """
            SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
            WHERE m.type = 'table' AND m.name NOT LIKE 'annals%' ORDER BY 1
            """
        let expected = try await world.rows(world.stores.count - 1, columns)
        for index in world.stores.indices {
            #expect(try await world.rows(index, columns) == expected, "seed \(seed): replica \(index) has other names")
            #expect(try await world.rows(index, "PRAGMA foreign_key_check").isEmpty, "seed \(seed): replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty, "seed \(seed): replica \(index)")
        }
    }

    // MARK: Steps

    private func rename(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async throws {
        let names = try await names(world, index)
        let first = ["team", "person", "tag", "note"][Int.random(in: 0...3, using: &random)]
        let table = try #require(names[first])
        if random.chance(45) {
            let taken = Set(names.values.map(\.table))
            let name = ["team", "person", "tag", "note", "T1", "T2", "T3", "T4"][Int.random(in: 0...7, using: &random)]
            guard !taken.contains(name) else { return }
            return try await run(world, index, .table(table.table, to: name), &random)
        }
        let own = table.columns.values.sorted()
        let name = (["id", "name", "email", "label", "body", "extra"] + ["c1", "c2"])[Int.random(in: 0...7, using: &random)]
        let column = own[Int.random(in: own.indices, using: &random)]
        if table.all.contains(name), !own.contains(name) { return }
        guard !own.contains(name) else { return try await swap(world, index, table.table, column, name, &random) }
        try await run(world, index, .column(column, of: table.table, to: name), &random)
    }

    private func swap(
        _ world: SyncedStores, _ index: Int, _ table: String, _ one: String, _ other: String, _ random: inout SeededGenerator
    ) async throws {
        guard one != other, random.chance(40) else { return }
        try world.outside(
            index,
            """
            ALTER TABLE "\(table)" RENAME COLUMN "\(one)" TO swapped; ALTER TABLE "\(table)" RENAME COLUMN "\(other)" TO "\(one)";
            ALTER TABLE "\(table)" RENAME COLUMN swapped TO "\(other)"
            """)
    }

    /// Declared in a migration, or by a program without Annals.
    private func run(_ world: SyncedStores, _ index: Int, _ rename: Rename, _ random: inout SeededGenerator) async throws {
        if random.chance(50) {
            try await world.stores[index].migrate(label: "rename", renames: [rename])
        } else if let column = rename.column {
            try world.outside(index, "ALTER TABLE \"\(rename.table)\" RENAME COLUMN \"\(column)\" TO \"\(rename.name)\"")
        } else {
            try world.outside(index, "ALTER TABLE \"\(rename.table)\" RENAME TO \"\(rename.name)\"")
        }
    }

    /// A new column with a free name.
    private func add(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async throws {
        let names = try await names(world, index)
        let table = try #require(names[random.chance(50) ? "team" : "note"])
        let name = ["extra", "name", "body"][Int.random(in: 0...2, using: &random)]
        guard !table.all.contains(name), table.all.count < 5 else { return }
        try world.outside(
            index,
            "ALTER TABLE \"\(table.table)\" ADD COLUMN \"\(name)\" TEXT DEFAULT 'd'; UPDATE \"\(table.table)\" SET \"\(name)\" = 'filled' WHERE rowid = 2"
        )
    }

    private func write(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async {
        guard let names = try? await names(world, index) else { return }
        let sql = (0..<Int.random(in: 1...3, using: &random)).map { _ in Self.translated(ConvergenceTests.statement(&random), names) }
        await world.write(index, sql, by: &random)
    }

    // MARK: Names

    /// The replica's current names of the first tables and columns. The test finds them by their order, which renames do not change.
    private func names(_ world: SyncedStores, _ index: Int) async throws -> [String: Names] {
        let columns = [
            "team": ["id", "name", "budget"], "person": ["id", "team", "email", "name", "age"], "tag": ["person", "label", "note"],
            "note": ["uuid", "body", "person"],
        ]
        var names: [String: Names] = [:]
        let tables = try await world.rows(
            index, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'annals%' AND name NOT LIKE 'sqlite%'")
        for table in tables.compactMap({ String.fromDatabaseValue($0[0]) }) {
            let info = try await world.rows(index, "SELECT name, type FROM pragma_table_info('\(table)') ORDER BY cid")
            let types = info.compactMap { String.fromDatabaseValue($0[1]) }.prefix(5).joined(separator: " ")
            let first =
                types.hasPrefix("INTEGER TEXT INTEGER")
                ? "team"
                : types.hasPrefix("INTEGER INTEGER") ? "person" : types.hasPrefix("INTEGER TEXT BLOB") ? "tag" : "note"
            let own = info.compactMap { String.fromDatabaseValue($0[0]) }
            names[first] = Names(table: table, columns: Dictionary(zip(columns[first] ?? [], own)) { $1 }, all: own)
        }
        return names
    }

    /// Translates a statement with canonical names of one table to the replica's names.
    private static func translated(_ sql: String, _ names: [String: Names]) -> String {
        var table: Names?
        var (isQuoted, word, text) = (false, "", "")
        func end() {
            if isQuoted {
                text += word
            } else if table == nil, let found = names[word] {
                table = found
                text += "\"\(found.table)\""
            } else {
                text += table?.columns[word].map { "\"\($0)\"" } ?? word
            }
            word = ""
        }
        for character in sql {
            if character.isLetter || character.isNumber || character == "_" {
                word.append(character)
                continue
            }
            end()
            if character == "'" { isQuoted.toggle() }
            text.append(character)
        }
        end()
        return text
    }
}
