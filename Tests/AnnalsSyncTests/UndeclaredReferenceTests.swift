import AnnalsCore
import AnnalsHistory
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

@testable import AnnalsSchema

private func reference(
    _ table: String, _ column: String, _ parent: String, _ parentColumn: String, _ onDelete: ReferenceTarget.DeleteAction = .noAction
) -> ReferenceSetting {
    ReferenceSetting(table: table, columns: [column], to: ReferenceTarget(table: parent, columns: [parentColumn], onDelete: onDelete))
}

private func conditional(_ condition: String) -> ReferenceSetting {
    ReferenceSetting(table: "items", columns: ["album_id"], to: ReferenceTarget(table: "albums", columns: ["id"], condition: condition))
}

/// References that the schema does not declare, decided for the space (merge rule 47).
@Suite("Merge rule 47: undeclared references") struct UndeclaredReferenceTests {
    private static let beets = """
        CREATE TABLE albums (id INTEGER PRIMARY KEY, album TEXT);
        CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT, album_id INTEGER);
        """
    /// What the stores of these tests decide when they create the space.
    private static let ignored = ReferenceSetting(table: "items", columns: ["album_id"], .none)
    private static let pairs = "SELECT title || ' of ' || ifnull(album, '-') FROM items LEFT JOIN albums ON albums.id = album_id ORDER BY 1"

    private static func albumAndItem(_ index: Int) -> String {
        "INSERT INTO albums VALUES (1, 'album \(index)'); INSERT INTO items VALUES (1, 'item \(index)', 1)"
    }

    fileprivate static func albumReference(
        _ onDelete: ReferenceTarget.DeleteAction = .noAction, condition: String? = nil
    ) -> ReferenceSetting {
        ReferenceSetting(
            table: "items", columns: ["album_id"],
            to: ReferenceTarget(table: "albums", columns: ["id"], onDelete: onDelete, condition: condition))
    }

    private func story(_ schema: String, _ settings: [ReferenceSetting], replicas: Int = 2) async throws -> Story {
        let story = try await Story(schema, replicas: replicas)
        try await story.world.stores[0].setReferences(settings)
        try await story.world.settle()
        return story
    }

    private func texts(_ story: Story, _ index: Int = 0, _ sql: String = Self.pairs) async throws -> [String] {
        try await story.world.stores[index].read { db in try String.fetchAll(db, sql: sql) }
    }

    private func settings(_ store: Store) async throws -> [ReferenceSetting] {
        try await store.references().map(\.setting)
    }

    // MARK: Renumbering

    @Test("Both sides add album 1 and an item of it: each item keeps its album")
    func renumbered() async throws {
        let story = try await story(Self.beets, [Self.albumReference()])
        for index in 0...1 {
            try await story.write(index, Self.albumAndItem(index))
        }
        _ = try await story.end()
        #expect(try await texts(story) == ["item 0 of album 0", "item 1 of album 1"])
    }

    @Test("An album and its items may come in several transactions, also from another program")
    func renumberedAcrossTransactions() async throws {
        let story = try await story(Self.beets, [Self.albumReference()])
        for index in 0...1 {
            try story.world.outside(index, "INSERT INTO albums VALUES (1, 'album \(index)')")
            try await story.world.stores[index].recordExternalChanges()
            try story.world.outside(index, "INSERT INTO items VALUES (1, 'item \(index)', 1)")
            try await story.world.stores[index].recordExternalChanges()
            try await story.write(index, "INSERT INTO items VALUES (2, 'more \(index)', 1)")
        }
        _ = try await story.end()
        #expect(
            try await texts(story) == ["item 0 of album 0", "item 1 of album 1", "more 0 of album 0", "more 1 of album 1"])
    }

    @Test("Several decisions are set at once")
    func setTogether() async throws {
        let schema = Self.beets + "CREATE TABLE discs (id INTEGER PRIMARY KEY); ALTER TABLE items ADD COLUMN disc_id INTEGER"
        let story = try await Story(schema)
        let store = story.world.stores[0]
        try await store.setReferences([
            ReferenceSetting(table: "items", columns: ["album_id"], to: ReferenceTarget(table: "albums", columns: ["id"])),
            ReferenceSetting(table: "items", columns: ["disc_id"], .none),
        ])
        #expect(try await settings(store).map(\.text) == ["items.album_id -> albums.id", "items.disc_id"])
    }

    @Test("A reference that is decided when both sides have unsent work counts for that work")
    func decidedAfterUnsentWork() async throws {
        let story = try await Story(Self.beets)
        for index in 0...1 {
            try await story.write(index, Self.albumAndItem(index))
        }
        try await story.world.stores[0].setReferences([Self.albumReference()])
        try await story.world.sync(0)
        _ = try await story.end()
        #expect(try await texts(story) == ["item 0 of album 0", "item 1 of album 1"])
    }

    @Test("Composite columns follow as one reference")
    func composite() async throws {
        let story = try await story(
            """
            CREATE TABLE discs (id INTEGER PRIMARY KEY, box TEXT, number INTEGER, title TEXT, UNIQUE (box, number));
            CREATE TABLE tracks (id TEXT PRIMARY KEY NOT NULL, box TEXT, number INTEGER);
            INSERT INTO discs VALUES (1, 'a', 1, 'one');
            """,
            [
                ReferenceSetting(
                    table: "tracks", columns: ["number", "box"],
                    to: ReferenceTarget(table: "discs", columns: ["number", "box"], onDelete: .cascade))
            ])
        try await story.write(0, "UPDATE discs SET number = 2 WHERE id = 1")
        try await story.write(1, "INSERT INTO tracks VALUES ('t', 'a', 1)")
        try await story.world.sync(0)
        let outcome = try await story.end()
        #expect(try await outcome.rows("tracks") == ["t|a|2"])
    }

    @Test("With a condition, only the rows for which it holds follow")
    func polymorphic() async throws {
        let notes = { (table: String, kind: String) in
            ReferenceSetting(
                table: "notes", columns: ["owner"], to: ReferenceTarget(table: table, columns: ["id"], condition: "kind = '\(kind)'"))
        }
        let story = try await story(
            Self.beets + "CREATE TABLE notes (id TEXT PRIMARY KEY NOT NULL, kind TEXT, owner INTEGER)",
            [Self.albumReference(), notes("albums", "album"), notes("items", "item")])
        for index in 0...1 {
            try await story.write(
                index,
                """
                INSERT INTO albums VALUES (1, 'album \(index)');
                INSERT INTO items VALUES (1, 'item \(index)', 1), (2, 'more \(index)', 1);
                INSERT INTO notes VALUES ('a\(index)', 'album', 1), ('i\(index)', 'item', 2), ('x\(index)', 'other', 1);
                """)
        }
        let outcome = try await story.end()
        let (album, item) = try await story.world.stores[0].read { db in
            (
                try Int.fetchOne(db, sql: "SELECT id FROM albums WHERE album = 'album 1'") ?? 0,
                try Int.fetchOne(db, sql: "SELECT id FROM items WHERE title = 'more 1'") ?? 0
            )
        }
        #expect(album != 1 && item != 2)
        #expect(
            try await outcome.rows("notes") == [
                "a0|album|1", "a1|album|\(album)", "i0|item|2", "i1|item|\(item)", "x0|other|1", "x1|other|1",
            ])
    }

    // MARK: Deletes

    @Test(
        "A new row of a deleted parent does what was decided",
        arguments: [
            (ReferenceTarget.DeleteAction.noAction, ["1|one"], ["1|x|1"]), (.restrict, ["1|one"], ["1|x|1"]), (.setNull, [], ["1|x|NULL"]),
            (.cascade, [], []),
        ] as [(ReferenceTarget.DeleteAction, [String], [String])])
    func insertOfDead(_ action: ReferenceTarget.DeleteAction, _ albums: [String], _ items: [String]) async throws {
        let story = try await story(Self.beets + "INSERT INTO albums VALUES (1, 'one')", [Self.albumReference(action)])
        try await story.write(0, "DELETE FROM albums WHERE id = 1")
        try await story.write(1, "INSERT INTO items VALUES (1, 'x', 1)")
        try await story.world.sync(0)
        let outcome = try await story.end()
        #expect(try await outcome.rows("albums") == albums)
        #expect(try await outcome.rows("items") == items)
        #expect(outcome.lines.count == (albums.isEmpty ? 1 : outcome.lines.count), "\(outcome.lines)")
    }

    @Test(
        "A delete of a parent that got an unseen row does what was decided",
        arguments: [
            (ReferenceTarget.DeleteAction.noAction, ["1|one"], ["1|x|1"]), (.restrict, ["1|one"], ["1|x|1"]), (.setNull, [], ["1|x|NULL"]),
            (.cascade, [], []),
        ] as [(ReferenceTarget.DeleteAction, [String], [String])])
    func deleteOfParent(_ action: ReferenceTarget.DeleteAction, _ albums: [String], _ items: [String]) async throws {
        let story = try await story(Self.beets + "INSERT INTO albums VALUES (1, 'one')", [Self.albumReference(action)])
        try await story.write(0, "INSERT INTO items VALUES (1, 'x', 1)")
        try await story.write(1, "DELETE FROM albums WHERE id = 1")
        try await story.world.sync(0)
        let outcome = try await story.end()
        #expect(try await outcome.rows("albums") == albums)
        #expect(try await outcome.rows("items") == items)
    }

    @Test("Rows that a program leaves without a parent stay as they are, and are sent as they are")
    func leftWithoutParent() async throws {
        let story = try await story(
            Self.beets + "INSERT INTO albums VALUES (1, 'one'), (2, 'two'); INSERT INTO items VALUES (1, 'x', 1), (2, 'y', 9)",
            [Self.albumReference(.cascade)])
        try await story.write(0, "INSERT INTO items VALUES (3, 'z', 77)")
        try await story.write(1, "DELETE FROM albums WHERE id = 1")
        try await story.write(1, "INSERT INTO items VALUES (3, 'w', 99)")
        try await story.write(1, "UPDATE items SET title = 'y2' WHERE id = 2")
        try await story.world.sync(0)
        let outcome = try await story.end()
        #expect(try await outcome.rows("albums") == ["2|two"])
        #expect(try await outcome.rows("items") == ["1|x|1", "2|y2|9", "3|z|77", "4|w|99"])
    }

    // MARK: In the space

    @Test("If two members decide differently, the later decision in the log counts everywhere")
    func differentDecisions() async throws {
        let story = try await Story(Self.beets, replicas: 3)
        try await story.world.stores[0].setReferences([Self.albumReference(.cascade)])
        try await story.world.stores[1].setReferences([Self.albumReference(.setNull)])
        try await story.world.stores[2].setReferences([ReferenceSetting(table: "albums", columns: ["album"], .none)])
        try await story.world.sync(0)
        try await story.world.settle()
        for store in story.world.stores {
            let none = ReferenceSetting(table: "albums", columns: ["album"], .none)
            #expect(try await settings(store) == [none, Self.albumReference(.setNull)])
        }
        _ = try await story.end()
    }

    @Test("none replaces a reference, a reference replaces none, and undecided takes both back")
    func replaced() async throws {
        let story = try await story(Self.beets, [Self.albumReference()])
        let none = ReferenceSetting(table: "ITEMS", columns: ["ALBUM_ID"], .none)
        try await story.world.stores[1].setReferences([none])
        try await story.world.settle()
        #expect(try await settings(story.world.stores[0]) == [ReferenceSetting(table: "items", columns: ["album_id"], .none)])
        try await story.world.stores[0].setReferences([Self.albumReference(.cascade)])
        try await story.world.settle()
        #expect(try await settings(story.world.stores[1]) == [Self.albumReference(.cascade)])
        try await story.world.stores[1].setReferences([ReferenceSetting(table: "items", columns: ["album_id"], .undecided)])
        try await story.world.settle()
        for store in story.world.stores { #expect(try await settings(store) == []) }
        for index in 0...1 {
            try await story.write(index, Self.albumAndItem(index))
        }
        _ = try await story.end()
        #expect(try await texts(story) == ["item 0 of album 0", "item 1 of album 0"], "nothing is followed any more")
    }

    @Test("A clone has the references, also from the first snapshot of a store that decided before it joined")
    func cloned() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE other (id INTEGER PRIMARY KEY)")
        let relay = try LocalRelay(folder: world.folder.file("second"), space: world.space)
        let queue = try DatabaseQueue(path: world.folder.file("first.db"))
        try await queue.write { db in try db.execute(sql: Self.beets) }
        try queue.close()
        let store = try Store(path: world.folder.file("first.db"), configuration: world.configuration("first"))
        _ = try await store.track(.all)
        try await store.setReferences([Self.albumReference(.cascade)])
        _ = try await world.joining("first", over: relay).join(store)
        _ = try await world.joining("clone", over: relay).clone(to: world.folder.file("clone.db"))
        let clone = try Store(path: world.folder.file("clone.db"), configuration: world.configuration("clone"))
        #expect(try await settings(clone) == [Self.albumReference(.cascade)])
        // A store with the same rows, and another one with other rows and a decision of its own.
        for (name, sql) in [("equal", ""), ("more", "INSERT INTO albums VALUES (1, 'm'); INSERT INTO items VALUES (1, 'm', 1)")] {
            let queue = try DatabaseQueue(path: world.folder.file("\(name).db"))
            try await queue.write { db in try db.execute(sql: Self.beets + sql) }
            try queue.close()
            let joining = try Store(path: world.folder.file("\(name).db"), configuration: world.configuration(name))
            _ = try await joining.track(.all)
            let own = ReferenceSetting(table: "albums", columns: ["album"], .none)
            if name == "more" { try await joining.setReferences([own, ReferenceSetting(table: "items", columns: ["album_id"], .none)]) }
            _ = try await world.joining(name, over: relay).join(joining, existing: .separate)
            #expect(try await settings(joining) == (name == "more" ? [own] : []) + [Self.albumReference(.cascade)], "\(name)")
        }
    }

    @Test("A join of rows with equal numbers follows the references of the space")
    func joinedSeparate() async throws {
        let story = try await story(Self.beets, [Self.albumReference()], replicas: 1)
        try await story.write(0, "INSERT INTO albums VALUES (1, 'theirs'); INSERT INTO items VALUES (1, 'theirs', 1)")
        try await story.world.settle()
        let path = story.world.folder.file("ours.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in
            try db.execute(sql: Self.beets + "INSERT INTO albums VALUES (1, 'ours'); INSERT INTO items VALUES (1, 'ours', 1)")
        }
        try queue.close()
        let store = try Store(path: path, configuration: story.world.configuration("ours"))
        _ = try await store.track(.all)
        _ = try await story.world.joining("ours").join(store, existing: .separate)
        story.world.add(store)
        _ = try await story.end()
        #expect(try await texts(story) == ["ours of ours", "theirs of theirs"])
    }

    @Test("A store that leaves keeps the decisions, and untracking removes them")
    func left() async throws {
        let story = try await story(Self.beets, [Self.albumReference()], replicas: 1)
        let store = story.world.stores[0]
        try await store.leave()
        #expect(try await settings(store) == [Self.albumReference()])
        _ = try await store.untrack()
        let names = try await store.read { db in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE name LIKE 'annals%'") }
        #expect(names == [])
    }

    // MARK: A new space

    @Test("A store with undecided strong suggestions creates no space until they are decided", arguments: SuggestedReferences.allCases)
    func undecided(_ choice: SuggestedReferences) async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE other (id INTEGER PRIMARY KEY)")
        let relay = try LocalRelay(folder: world.folder.file("second"), space: world.space)
        let path = world.folder.file("first.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: Self.beets) }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("first"))
        _ = try await store.track(.all)
        let joining = world.joining("first", over: relay)
        let error = await #expect(throws: AnnalsError.self) { try await joining.join(store) }
        #expect(
            error?.code == .schemaRefused && error?.message.contains("items.album_id -> albums.id") == true, "\(String(describing: error))")
        #expect(try await store.replicaState() == nil)
        #expect(try await store.references() == [])
        _ = try await joining.join(store, references: choice)
        #expect(try await settings(store) == [choice == .accept ? Self.albumReference() : Self.ignored])
        let clone = world.folder.file("clone.db")
        _ = try await world.joining("clone", over: relay).clone(to: clone)
        #expect(try await settings(Store(path: clone)) == settings(store))
    }

    // MARK: Refusals

    @Test(
        "A decision that makes no sense is refused in one line",
        arguments: [
            (reference("items", "album_id", "nothing", "id"), "no tracked table nothing"),
            (ReferenceSetting(table: "items", columns: ["nothing"], .none), "no stored column nothing"),
            (reference("items", "album_id", "albums", "album"), "nor a UNIQUE index"),
            (reference("items", "id", "items", "id"), "refer to itself"),
            (reference("items", "id", "albums", "id", .setNull), "cannot be NULL"), (conditional("abs(id) = 1"), "cannot be read"),
            (conditional("title = lower('X')"), "cannot be read"), (conditional("title = (SELECT 1)"), "cannot be read"),
            (conditional("title LIKE 'x'"), "cannot be read"), (conditional("title = 'x' OR 1"), "cannot be read"),
            (conditional(""), "cannot be read"), (conditional("title IN ('x'"), "cannot be read"),
            (conditional("nothing = 1"), "no stored column"), (conditional("album_id = 1"), "column of the reference itself"),
        ])
    func refused(_ setting: ReferenceSetting, _ part: String) async throws {
        let story = try await Story(Self.beets, replicas: 1)
        let error = await #expect(throws: AnnalsError.self) { try await story.world.stores[0].setReferences([setting]) }
        #expect(error?.code == .usage)
        #expect(error?.message.contains(part) == true, "\(error?.message ?? "")")
        #expect(try await settings(story.world.stores[0]) == [Self.ignored])
    }

    @Test("Two keys that refer to each other are refused")
    func circleOfKeys() async throws {
        let story = try await Story(Self.beets, replicas: 1)
        let one = ReferenceSetting(table: "items", columns: ["id"], to: ReferenceTarget(table: "albums", columns: ["id"]))
        let other = ReferenceSetting(table: "albums", columns: ["id"], to: ReferenceTarget(table: "items", columns: ["id"]))
        try await story.world.stores[0].setReferences([one])
        await #expect(throws: AnnalsError.self) { try await story.world.stores[0].setReferences([other]) }
    }

    // MARK: Members that send anything

    /// Pushes decisions as another member, without any check.
    private func push(_ settings: [ReferenceSetting], to world: SyncedStores, _ footprint: Footprint = .everything) async throws {
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .local))
        body.references(settings)
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: footprint)
        let answer = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        #expect(answer.outcome == .accepted)
    }

    @Test("Senseless decisions of a member are kept and not followed, and stop nobody")
    func hostile() async throws {
        let story = try await story(Self.beets + "INSERT INTO albums VALUES (1, 'one')", [Self.albumReference()])
        try await story.write(1, "INSERT INTO albums VALUES (2, 'album 1'); INSERT INTO items VALUES (1, 'item 1', 2)")
        func reference(
            _ table: String, _ columns: [String], _ parent: String, _ parents: [String], _ condition: String? = nil
        ) -> ReferenceSetting {
            ReferenceSetting(
                table: table, columns: columns,
                to: ReferenceTarget(table: parent, columns: parents, onDelete: .cascade, condition: condition))
        }
        let hostile = [
            reference("nothing", ["x"], "albums", ["id"]), reference("items", ["x"], "albums", ["id"]),
            reference("items", ["album_id"], "nothing", ["id"]), reference("items", ["album_id", "album_id"], "albums", ["id", "id"]),
            reference("albums", ["id"], "albums", ["id"]), reference("albums", ["album"], "albums", ["id"], "load_extension('x') = 1"),
            reference("items", ["title"], "albums", ["id"], String(repeating: "x", count: 1_000_000)), reference("", [""], "", [""]),
            reference("annals_outbox", ["id"], "sqlite_master", ["rowid"]),
        ]
        try await push(hostile, to: story.world)
        try await push((0..<5_000).map { reference("t\($0)", ["x"], "albums", ["id"]) }, to: story.world)
        try await story.write(0, "INSERT INTO albums VALUES (2, 'album 0'); INSERT INTO items VALUES (1, 'item 0', 2)")
        _ = try await story.end()
        #expect(try await texts(story) == ["item 0 of album 0", "item 1 of album 1"])
        let decided = try await story.world.stores[1].references()
        #expect(decided.count == SchemaLimits.references)
        #expect(decided.filter { $0.problem == nil }.map(\.setting.text) == ["items.album_id -> albums.id"])
    }

    @Test("Keys that a member makes refer to each other, and to themselves in a circle, stop nobody")
    func hostileCircle() async throws {
        let story = try await story(Self.beets, [Self.albumReference()])
        try await push(
            [
                reference("items", "id", "albums", "id", .cascade), reference("albums", "id", "items", "id", .cascade),
                reference("albums", "album", "items", "id", .cascade), reference("items", "album_id", "items", "id", .cascade),
            ], to: story.world)
        for index in 0...1 {
            try await story.write(
                index, "INSERT INTO albums VALUES (1, 1), (2, 2); INSERT INTO items VALUES (1, 'item \(index)', 2), (2, 'x', 1)")
        }
        try await story.write(1, "DELETE FROM albums; INSERT INTO items VALUES (3, 'y', 3)")
        let outcome = try await story.end()
        #expect(try await outcome.rows("items").isEmpty == false)
    }

    @Test("A decision whose footprint does not conflict with everything is refused")
    func wrongFootprint() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.beets)
        try await world.settle()
        try await push([Self.albumReference()], to: world, Footprint())
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0) }
        #expect(error?.code == .corruptBatch)
        #expect(try await settings(world.stores[0]) == [Self.ignored])
    }
}
