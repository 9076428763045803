import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("Net changes of large transactions")
struct NetChangesTests {
    @Test("Folding only repeated rows, in memory or sorted, comes out as folding all", arguments: ReplayLawTests.seeds)
    func ways(seed: UInt64) throws {
        var random = RandomStore(seed: seed)
        let store = try HistoryFile(random.schema, leavesOutAll: seed % 2 == 1)
        try store.track()
        // One transaction with many statements, so that rows are changed several times and move.
        let statements = (0..<60).flatMap { _ in random.statements() }
        try store.file.shell((["BEGIN"] + statements + ["COMMIT"]).map { $0 + ";\n" }.joined(), stopsAtError: false)
        let number = try #require(try store.recordExternalChanges())
        let whole = try changes(store, number, atOnce: .max, inMemory: .max)
        #expect(!whole.isEmpty)
        for inMemory in [0, 10, .max] {
            let isSame = try changes(store, number, atOnce: 1, inMemory: inMemory) == whole
            #expect(isSame, "seed \(seed), \(inMemory) in memory")
        }
    }

    private func changes(_ store: HistoryFile, _ number: Int64, atOnce: Int, inMemory: Int) throws -> [String] {
        try store.queue.read { db in
            let changes = try NetChanges(db, tables: TrackedTables.load(db), foldedAtOnce: atOnce, foldedInMemory: inMemory)
            var lines: [String] = []
            for section in try changes.sections(of: number) {
                try changes.forEachRow(in: section) { lines.append("\(section.layout) \($0)") }
            }
            return lines.sorted()
        }
    }

    @Test("A long chain of moves is one change")
    func chain() throws {
        let store = try HistoryFile("CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, a)")
        try store.external("INSERT INTO t VALUES('0', 1)")
        try store.track()
        let steps = (0..<300).map { "UPDATE t SET k = '\($0 + 1)' WHERE k = '\($0)';" }
        let number = try #require(try store.external("BEGIN;\(steps.joined()) INSERT INTO t VALUES('0', 2); COMMIT"))
        let changes = try store.changes(number).sorted { "\($0.kind)" < "\($1.kind)" }
        #expect(changes.map(\.kind) == [.insert, .update])
        #expect(changes[1].columns == [.init(name: "k", old: .text("0"), new: .text("300"))])
    }

    @Test("For the outbox a row gets its key as an insert and loses it as a delete")
    func nullKeys() throws {
        let store = try HistoryFile("CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES(NULL, 1), ('x', 2), (NULL, 3)")
        try store.track()
        let number = try #require(
            try store.external(
                "BEGIN; UPDATE t SET k = 'y' WHERE a = 1; UPDATE t SET k = NULL WHERE a = 2; UPDATE t SET a = 4 WHERE a = 3; COMMIT"))
        var seen: [String] = []
        try store.queue.read { db in
            try NetChanges(db, tables: TrackedTables.load(db)).forEach(in: number) { _, row in
                seen.append(row.old == nil ? "insert" : row.new == nil ? "delete" : "update")
            }
        }
        #expect(seen.sorted() == ["delete", "insert"])
        #expect(try store.changes(number).count == 3)
    }
}
