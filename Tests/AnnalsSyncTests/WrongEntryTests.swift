import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

@testable import AnnalsSchema
@testable import AnnalsStore

/// Entries that no honest replica writes. Every receiver refuses them, also one with unsent work, and the entries of others are applied.
@Suite struct WrongEntryTests {
    private static let schema = """
        CREATE TABLE shelf(name TEXT PRIMARY KEY NOT NULL, room TEXT);
        CREATE TABLE book(id INTEGER PRIMARY KEY, title TEXT UNIQUE, note TEXT, shelf TEXT REFERENCES shelf(name));
        INSERT INTO shelf VALUES('a', 'attic'), ('b', 'bath');
        INSERT INTO book VALUES(1, 'one', 'x', 'a'), (2, 'two', 'x', 'b');
        """
    private static let book = TableLayout(name: "book", columns: ["id", "title", "note", "shelf"], key: [0])

    private func world() async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        return world
    }

    /// Pushes one transaction of a replica without a file. Returns its position.
    private func push(
        to world: SyncedStores, _ layout: TableLayout, _ footprint: Footprint = .everything, id: TransactionID = .random(),
        _ write: (inout BodyEncoder) -> Void
    ) async throws -> Position {
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: id, time: HybridTime(milliseconds: 1), origin: .local))
        body.beginTable(1)
        write(&body)
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.layout(ref: 1, layout)
        batch.append(body: body.finish(), base: description.head, footprint: footprint)
        let answer = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        #expect(answer.outcome == .accepted)
        return try await world.relay.describe().head
    }

    private func refusal(_ world: SyncedStores, _ index: Int) async throws -> AnnalsError {
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(index) }
        return try #require(error)
    }

    private func expectRefused(_ world: SyncedStores, at position: Position, _ rule: RefusedEntry.Rule, by replicas: [Int]) async throws {
        for index in replicas {
            let error = try await refusal(world, index)
            let entry = try #require(error.entry, "\(error)")
            #expect(entry.position == position && entry.rule == rule && entry.author != nil, "\(index): \(error)")
            #expect(error.code == .corruptBatch || error.code == .diverged, "\(error)")
            #expect(error.message.contains("position \(position)"), "\(error)")
            #expect(error.hint?.contains("relay's operator to void") == true, "\(error)")
            #expect(error.commandHint?.contains("annals relay void \(position) --space shop") == true, "\(error)")
        }
        _ = try await world.relay.void(position)
        try await world.settle()
        let first = try await world.stores[0].digest()
        for store in world.stores { #expect(try await store.digest() == first) }
    }

    /// An entry without a complete key would let each replica choose another key.
    @Test(arguments: [Value.null, .text("x"), .real(7), .real(7.5)])
    func `a key that is no integer in an integer key's place is a bad value`(key: Value) async throws {
        let world = try await world()
        let inserted = try await push(to: world, Self.book) { $0.insert([key, .text("three"), .null, .null]) }
        try await expectRefused(world, at: inserted, .badValue, by: [0, 1, 2])
        let changed = try await push(to: world, Self.book) {
            $0.update(key: [.integer(1)], columns: [ColumnChange(column: 0, old: .integer(1), new: key)])
        }
        try await expectRefused(world, at: changed, .badValue, by: [0, 1, 2])
        let shelf = TableLayout(name: "shelf", columns: ["name", "room"], key: [0])
        guard key == .null else { return }
        let unnamed = try await push(to: world, shelf) { $0.insert([.null, .text("cellar")]) }
        try await expectRefused(world, at: unnamed, .badValue, by: [0, 1, 2])
    }

    @Test func `a layout with another key, without the key or with a column twice is a bad value`() async throws {
        let world = try await world()
        for (columns, key) in [
            (["id", "title", "note"], [1]), (["title", "note"], [0]), (["id", "title", "title"], [0]), (["id", "title", "note"], []),
        ] {
            let position = try await push(to: world, TableLayout(name: "book", columns: columns, key: key)) {
                $0.insert((0..<columns.count).map { .integer(Int64($0 + 70)) })
            }
            try await expectRefused(world, at: position, .badValue, by: [0, 1])
        }
    }

    @Test func `an entry of a table or a column that no entry added is named, with its rule`() async throws {
        let world = try await world()
        let table = try await push(to: world, TableLayout(name: "nosuch", columns: ["id"], key: [0])) { $0.insert([.integer(1)]) }
        try await expectRefused(world, at: table, .badSchema, by: [0, 1])
        let column = try await push(to: world, TableLayout(name: "book", columns: ["id", "nosuch"], key: [0])) {
            $0.insert([.integer(9), .integer(1)])
        }
        try await expectRefused(world, at: column, .badSchema, by: [0, 1])
    }

    @Test func `a footprint that leaves out what meets unsent work is refused by all, and the work stays`() async throws {
        let world = try await world()
        let other = Footprint(groups: [Footprint.Group(table: 12_345, writes: [777])])
        for (number, unsent) in [
            "INSERT INTO book VALUES(3, 'unsent', 'u', 'a')", "INSERT INTO book(title) VALUES('three')",
            "UPDATE book SET title = 'three' WHERE id = 2", "DELETE FROM shelf WHERE name = 'b'",
        ].enumerated() {
            if unsent.hasPrefix("DELETE") {
                try await world.stores[1].write { try $0.execute(sql: "UPDATE book SET shelf = NULL; DELETE FROM shelf WHERE name = 'b'") }
            } else {
                try await world.stores[1].write { try $0.execute(sql: unsent) }
            }
            _ = try await world.stores[1].prepareOutbox()
            let position = try await push(to: world, Self.book, other) {
                $0.insert([.integer(3), .text("three"), .null, .text(number == 3 ? "b" : "a")])
            }
            try await expectRefused(world, at: position, .badFootprint, by: [0, 1, 2])
            // The unsent work still exists, and is in the space by now.
            let count = try await world.rows(2, "SELECT count(*) FROM book WHERE note = 'u' OR title = 'three'")
            #expect(number == 3 || count == [[1.databaseValue]], "\(unsent): \(count)")
            try await world.stores[0].write {
                try $0.execute(sql: "DELETE FROM book WHERE id > 2; UPDATE book SET title = 'two' WHERE id = 2")
            }
            try await world.settle()
        }
        #expect(try await world.rows(2, "SELECT name FROM shelf") == [["a".databaseValue]])
    }

    @Test func `a footprint without a conflict that the transaction resolves is refused`() async throws {
        let world = try await world()
        let resolution = ConflictResolution(
            conflict: ConflictID(replica: .random(), transaction: .random(), index: 2), choice: .incoming)
        for isNamed in [false, true] {
            let id = TransactionID.random()
            var footprint = FootprintBuilder(transaction: id)
            if isNamed { footprint.add(resolution) }
            let position = try await push(to: world, Self.book, footprint.finish(), id: id) { $0.resolutions([resolution]) }
            if !isNamed { try await expectRefused(world, at: position, .badFootprint, by: [0, 1, 2]) }
        }
        try await world.settle()
        #expect(try await world.stores[0].replicaState()?.position == world.relay.describe().head)
    }

    @Test func `what does not fit unsent work only is applied without it, and refused for its footprint`() async throws {
        let world = try await world()
        // The footprint names the row, and not its title.
        let id = TransactionID.random()
        var honest = FootprintBuilder(transaction: id)
        let table = try #require(try await world.stores[0].read { db in try TrackedTables.load(db) }.table(named: "book"))
        honest.add(table.rules, old: nil, new: [.integer(4), .null, .null, .null])
        let position = try await push(to: world, Self.book, honest.finish(), id: id) {
            $0.insert([.integer(4), .text("three"), .null, .null])
        }
        try await world.stores[1].write { try $0.execute(sql: "INSERT INTO book VALUES(3, 'three', 'u', 'a')") }
        for direction in [SyncDirection.pullOnly, .both] {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, direction) }
            #expect(direction == .both || error?.entry?.rule == .badFootprint, "\(String(describing: error))")
            #expect(error?.entry?.position == position)
        }
        _ = try await world.relay.void(position)
        try await world.settle()
        #expect(try await world.rows(2, "SELECT id FROM book WHERE title = 'three'") == [[3.databaseValue]])
    }

    /// Each hash of an honest footprint is necessary. Without it the relay would miss a conflict.
    @Test func `a footprint without one of its hashes is refused, whichever it is`() async throws {
        let world = try await world()
        var hashes = 0
        for (number, sql) in [
            "INSERT INTO book VALUES(NUMBER, 'title NUMBER', 'y', 'a')", "UPDATE book SET title = 'new NUMBER' WHERE id = 1",
            "UPDATE book SET note = 'note NUMBER' WHERE id = 1", "UPDATE book SET shelf = iif(shelf = 'a', 'b', 'a') WHERE id = 2",
            "UPDATE book SET id = id + 1000 WHERE title LIKE 'new%'",
            "DELETE FROM book WHERE id = (SELECT max(id) FROM book WHERE id < 90)",
        ].enumerated() {
            var place = 0
            while true {
                let sql = sql.replacing("NUMBER", with: "\(number * 10 + place + 20)")
                try await world.stores[0].write { try $0.execute(sql: sql) }
                _ = try await world.stores[0].prepareOutbox()
                guard try Self.dropHash(place, world.stores[0].path) else { break }
                _ = try await world.sync(0, .pushOnly)
                let position = try await world.relay.describe().head
                try await expectRefused(world, at: position, .badFootprint, by: [1, 2])
                place += 1
            }
            try await world.settle()
            hashes += place
            #expect(place >= 2, "\(sql)")
        }
        #expect(hashes >= 20, "\(hashes)")
    }

    /// Removes one hash from the newest footprint of an outbox. Returns whether there is one with this number.
    private static func dropHash(_ number: Int, _ path: String) throws -> Bool {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.write { db in
            let row = try #require(
                try Row.fetchOne(db, sql: "SELECT sequence, footprint FROM annals_outbox ORDER BY sequence DESC LIMIT 1"))
            var footprint = try Footprint.decode([UInt8](row[1] as Data))
            var rest = number
            for group in footprint.groups.indices {
                for list in [\Footprint.Group.writes, \.reads] {
                    let count = footprint.groups[group][keyPath: list].count
                    if rest < count {
                        footprint.groups[group][keyPath: list].remove(at: rest)
                        if footprint.groups[group].writes.isEmpty, footprint.groups[group].reads.isEmpty {
                            footprint.groups.remove(at: group)
                        }
                        try db.execute(
                            sql: "UPDATE annals_outbox SET footprint = ? WHERE sequence = ?",
                            arguments: [Data(footprint.encode()), row[0] as Int64])
                        return true
                    }
                    rest -= count
                }
            }
            return false
        }
    }
}
