import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// A store that leaves with unsent work and joins again (merge rule 40).
@Suite("Leaving with unsent work")
struct LeavingWithWorkTests {
    private static let schema = """
        CREATE TABLE book(id INTEGER PRIMARY KEY, title TEXT, shelf TEXT);
        CREATE TABLE loan(id INTEGER PRIMARY KEY, book INTEGER NOT NULL REFERENCES book(id), name TEXT);
        INSERT INTO book VALUES(1, 'Emma', 'A'), (2, 'Ulysses', 'A'), (3, 'Walden', 'A'), (4, 'Dune', 'A');
        INSERT INTO loan VALUES(1, 2, 'Vera');
        CREATE TABLE counter(id INTEGER PRIMARY KEY, n INTEGER, name TEXT);
        INSERT INTO counter VALUES(1, 10, 'x'), (2, 10, 'y');
        CREATE TABLE setting(name TEXT PRIMARY KEY NOT NULL, value TEXT);
        """
    private static let books = "SELECT title || ' ' || shelf FROM book ORDER BY title"
    private static let loans = "SELECT name || ' ' || title FROM loan JOIN book ON book.id = book ORDER BY name"

    /// The second replica leaves with `unsent`, writes `later`, and joins the space again, where the first replica wrote `others`.
    private func rejoined(
        unsent: String, later: String = "", others: String, existing: ExistingRows? = .sameKey, policies: MergePolicies = MergePolicies(),
        damage: String = ""
    ) async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, policies: policies)
        if !unsent.isEmpty {
            try await world.stores[1].write { db in try db.execute(sql: unsent) }
            await #expect { try await world.stores[1].leave() } throws: { ($0 as? AnnalsError)?.code == .rowsDiffer }
        }
        if !damage.isEmpty {
            _ = try await world.stores[1].updateOutbox()
            try world.outside(1, damage)
        }
        try await world.stores[1].leave(force: true)
        if !later.isEmpty { try await world.stores[1].write { db in try db.execute(sql: later) } }
        try await world.stores[0].write { db in try db.execute(sql: others) }
        _ = try await world.sync(0)
        _ = try await world.joining("r1").join(world.stores[1], existing: existing)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        for store in world.stores {
            #expect(try await store.foreignKeyViolations().isEmpty)
            #expect(try await store.verify().isEmpty)
        }
        return world
    }

    private func lines(_ world: SyncedStores, _ sql: String) async throws -> [String] {
        try await world.stores[0].read { db in try String.fetchAll(db, sql: sql) }
    }

    @Test("law 5: an unsent row keeps its own number apart from a row that others added", arguments: [ExistingRows.sameKey, .separate])
    func inserted(existing: ExistingRows) async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO book VALUES(5, 'Mine', 'B'); INSERT INTO loan VALUES(2, 5, 'Ann')",
            others: "INSERT INTO book VALUES(5, 'Theirs', 'C'); INSERT INTO loan VALUES(2, 5, 'Bob')", existing: existing)
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Mine B", "Theirs C", "Ulysses A", "Walden A"])
        #expect(try await lines(world, Self.loans) == ["Ann Mine", "Bob Theirs", "Vera Ulysses"])
        #expect(try await world.stores[0].conflicts().allSatisfy { $0.entry.kind == .renumber })
    }

    @Test("law 5: unsent changes and deletes are merged with what others did", arguments: [ExistingRows.sameKey, .separate])
    func changed(existing: ExistingRows) async throws {
        let world = try await rejoined(
            unsent: "UPDATE book SET shelf = 'B' WHERE id = 1; DELETE FROM book WHERE id = 3; UPDATE book SET title = 'Mine' WHERE id = 4",
            others: "UPDATE book SET title = 'Emma!' WHERE id = 1; UPDATE book SET title = 'Theirs' WHERE id = 4", existing: existing)
        guard existing == .sameKey else {
            // Rows that others changed are other rows, as without unsent work.
            #expect(try await lines(world, Self.books) == ["Emma B", "Emma! A", "Mine A", "Theirs A", "Ulysses A"])
            return
        }
        #expect(try await lines(world, Self.books) == ["Emma! B", "Theirs A", "Ulysses A"])
        // The values that the space had before are in the journal too, as for every row that differs.
        let journal = try await world.stores[0].conflicts().compactMap { $0.entry.incoming?.first }
        #expect(journal.contains(.text("Mine")) && !journal.contains(.text("B")))
    }

    @Test("an unsent row and one of others under a key that is no number are one row, with the other value in the journal")
    func named() async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO setting VALUES('size', 'mine')", others: "INSERT INTO setting VALUES('size', 'theirs')")
        #expect(try await lines(world, "SELECT value FROM setting") == ["theirs"])
        #expect(try await world.stores[0].conflicts().map { $0.entry.incoming } == [[.text("mine")]])
    }

    @Test("rows that are equal to the space's stay one row, whatever is unsent")
    func equal() async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO book VALUES(5, 'Both', 'B'); UPDATE book SET shelf = 'B' WHERE id = 1",
            others: "INSERT INTO book VALUES(5, 'Both', 'B'); UPDATE book SET shelf = 'B' WHERE id = 1")
        #expect(try await lines(world, Self.books) == ["Both B", "Dune A", "Emma B", "Ulysses A", "Walden A"])
        #expect(try await world.stores[0].conflicts().isEmpty)
    }

    @Test("law 5: what a store writes after it left is its own too, and follows its parents")
    func later() async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO book VALUES(5, 'Mine', 'B'); UPDATE book SET shelf = 'B' WHERE id = 1",
            later: """
                INSERT INTO loan VALUES(2, 5, 'Ann');
                INSERT INTO book VALUES(6, 'Later', 'B');
                UPDATE book SET shelf = 'C' WHERE id = 1;
                DELETE FROM book WHERE id = 4;
                """,
            others: "INSERT INTO book VALUES(5, 'Theirs', 'A'), (6, 'Others', 'A'); INSERT INTO loan VALUES(2, 5, 'Bob')")
        #expect(
            try await lines(world, Self.books)
                == ["Dune A", "Emma C", "Later B", "Mine B", "Others A", "Theirs A", "Ulysses A", "Walden A"])
        #expect(try await lines(world, Self.loans) == ["Ann Mine", "Bob Theirs", "Vera Ulysses"])
    }

    @Test("an unsent row that moved, or took the key of a deleted one, is followed")
    func moved() async throws {
        let world = try await rejoined(
            unsent: """
                DELETE FROM book WHERE id = 3; UPDATE book SET id = 3 WHERE id = 4;
                INSERT INTO book VALUES(7, 'New', 'B'); UPDATE book SET id = 8 WHERE id = 7;
                DELETE FROM book WHERE id = 1; INSERT INTO book VALUES(1, 'Emma', 'Z');
                """,
            others: "INSERT INTO book VALUES(8, 'Eight', 'A'); UPDATE book SET shelf = 'Q' WHERE id = 4")
        #expect(try await lines(world, Self.books) == ["Dune Q", "Eight A", "Emma Z", "New B", "Ulysses A"])
    }

    @Test("a key that others gave to another row is not taken by a row of ours that moved there")
    func movedToATakenKey() async throws {
        let world = try await rejoined(
            unsent: "UPDATE book SET id = 9 WHERE id = 4; UPDATE book SET id = 4 WHERE id = 3",
            others: "INSERT INTO book VALUES(9, 'Nine', 'A')")
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Nine A", "Ulysses A", "Walden A"])
    }

    @Test(
        "law 5: rows that a store removes after it left come back, and are not deleted in the space",
        arguments: [nil, ExistingRows.sameKey])
    func emptied(existing: ExistingRows?) async throws {
        let world = try await rejoined(
            unsent: "", later: "DELETE FROM loan; DELETE FROM book; DELETE FROM counter",
            others: "INSERT INTO book VALUES(5, 'Theirs', 'C')", existing: existing
        )
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Theirs C", "Ulysses A", "Walden A"])
        #expect(try await lines(world, Self.loans) == ["Vera Ulysses"])
    }

    @Test("law 5: a store without rows that joins without an option gets the space's rows, whatever was unsent")
    func emptiedBefore() async throws {
        let world = try await rejoined(
            unsent: "DELETE FROM loan; DELETE FROM book; DELETE FROM counter", others: "UPDATE book SET shelf = 'C' WHERE id = 1",
            existing: nil)
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma C", "Ulysses A", "Walden A"])
    }

    @Test("a row under a key that was removed after leaving may be the space's row: its values are in the journal")
    func reusedKey() async throws {
        let world = try await rejoined(
            unsent: "", later: "DELETE FROM book WHERE id = 1", others: "UPDATE book SET shelf = 'C' WHERE id = 2")
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Ulysses C", "Walden A"])
        try await world.stores[1].leave()
        try await world.stores[1].write { db in try db.execute(sql: "DELETE FROM book WHERE id = 1") }
        try await world.stores[1].write { db in try db.execute(sql: "INSERT INTO book VALUES(1, 'Other', 'A')") }
        _ = try await world.joining("r1").join(world.stores[1], existing: .sameKey)
        try await world.settle()
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Ulysses C", "Walden A"])
        #expect(try await world.stores[0].conflicts().contains { $0.entry.incoming == [.text("Other")] })
    }

    @Test("law 5: only what is unsent competes with newer values of others, under each policy", arguments: ["sum", "incoming"])
    func policies(name: String) async throws {
        var policies = MergePolicies()
        policies["counter"].column = name == "sum" ? .sum : .mergeByPropertyObjectTrump
        let world = try await rejoined(
            unsent: "UPDATE counter SET n = 15 WHERE id = 1; UPDATE counter SET name = 'Mine' WHERE id = 2",
            later: "UPDATE counter SET n = 17 WHERE id = 1",
            others: "UPDATE counter SET n = 30, name = 'Theirs' WHERE id = 1; UPDATE counter SET n = 50 WHERE id = 2", policies: policies)
        #expect(
            try await lines(world, "SELECT n || ' ' || name FROM counter ORDER BY id")
                == [name == "sum" ? "37 Theirs" : "17 Theirs", "50 Mine"])
    }

    @Test("law 5: a changed row that the space does not have any more stays")
    func changedAndGone() async throws {
        let world = try await rejoined(unsent: "UPDATE book SET shelf = 'B' WHERE id = 3", others: "DELETE FROM book WHERE id = 3")
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Ulysses A", "Walden B"])
    }

    @Test(
        "a store with a damaged outbox can leave, and its rows are merged by key",
        arguments: ["UPDATE annals_outbox SET body = x'ff00'", "INSERT INTO annals_push VALUES(1, 2, 9, x'00', x'00')"])
    func damaged(sql: String) async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO book VALUES(5, 'Mine', 'B')", others: "INSERT INTO book VALUES(5, 'Theirs', 'C')", damage: sql)
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Theirs C", "Ulysses A", "Walden A"])
        #expect(try await !world.stores[0].conflicts().isEmpty)
    }

    @Test("rows of a push under way may be in the space, and are not doubled")
    func pushUnderWay() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let store = world.stores[1]
        try await store.write { db in try db.execute(sql: "INSERT INTO book VALUES(5, 'Mine', 'B')") }
        let cut = AlteredRelay.failing(world.relay, .push, .after, error: .unreachable("no connection", wasSent: true))
        _ = try? await world.sync(1, over: cut)
        try await store.write { db in try db.execute(sql: "UPDATE book SET shelf = 'D' WHERE id = 5") }
        try await store.leave(force: true)
        _ = try await world.joining("r1").join(store, existing: .sameKey)
        try await world.settle()
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Mine D", "Ulysses A", "Walden A"])
    }

    @Test("theirs removes unsent work too, and the note about it ends with the join")
    func theirs() async throws {
        let world = try await rejoined(
            unsent: "INSERT INTO book VALUES(5, 'Mine', 'B')", others: "INSERT INTO book VALUES(5, 'Theirs', 'C')", existing: .theirs)
        #expect(try await lines(world, Self.books) == ["Dune A", "Emma A", "Theirs C", "Ulysses A", "Walden A"])
        #expect(try await world.stores[1].read { db in try db.tableExists("annals_unsent") } == false)
    }

    @Test("law 5: unsent work goes along into another space, through a migration that the first space refused")
    func migrated() async throws {
        let old = try await SyncedStores(replicas: 2, schema: Self.schema)
        let store = old.stores[1]
        try await store.write { db in
            try db.execute(
                sql: """
                    INSERT INTO book VALUES(5, 'Mine', 'B'); INSERT INTO loan VALUES(2, 5, 'Ann');
                    UPDATE book SET title = 'Emma!', shelf = 'B' WHERE id = 1; DELETE FROM book WHERE id = 3;
                    """)
        }
        _ = try await store.updateOutbox()
        // Another program rebuilds a table without one of its columns, as migration tools do.
        let queue = try DatabaseQueue(path: store.path)
        try await queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA foreign_keys = OFF;
                    CREATE TABLE new__book(id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE);
                    INSERT INTO new__book SELECT id, title FROM book;
                    DROP TABLE book;
                    ALTER TABLE new__book RENAME TO book;
                    """)
        }
        try queue.close()
        await #expect { _ = try await old.sync(1) } throws: { ($0 as? AnnalsError)?.code == .schemaRefused }
        try await store.leave(force: true)

        let schema = Self.schema.replacing("title TEXT, shelf TEXT", with: "title TEXT COLLATE NOCASE").replacing(", 'A')", with: ")")
        let world = try await SyncedStores(
            replicas: 1, schema: schema + "INSERT INTO book VALUES(5, 'Theirs'); INSERT INTO loan VALUES(2, 5, 'Bob');")
        _ = try await world.joining("r1").join(store, existing: .sameKey)
        world.add(store)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        #expect(try await lines(world, "SELECT title FROM book ORDER BY title") == ["Dune", "Emma!", "Mine", "Theirs", "Ulysses"])
        #expect(try await lines(world, Self.loans) == ["Ann Mine", "Bob Theirs", "Vera Ulysses"])
        #expect(try await world.stores[1].verify().isEmpty)
    }
}
