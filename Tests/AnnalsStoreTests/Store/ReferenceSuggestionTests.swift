import AnnalsCore
import AnnalsHistory
import AnnalsStore
import Foundation
import GRDB
import Testing

/// Suggestions of references that the schema does not declare.
@Suite struct ReferenceSuggestionTests {
    private func suggestions(_ sql: String, deciding settings: [ReferenceSetting] = []) async throws -> [ReferenceSuggestion] {
        let path = FileManager.default.temporaryDirectory.path + "/annals-suggest-\(ReplicaID.random()).db"
        defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: sql) }
        try queue.close()
        let store = try Store(path: path)
        _ = try await store.track(.all)
        if !settings.isEmpty { try await store.setReferences(settings) }
        return try await store.suggestReferences()
    }

    private func lines(_ sql: String) async throws -> [String] {
        try await suggestions(sql).map { "\($0.strength) \($0.setting.text)" }.sorted()
    }

    @Test(
        "Names of columns and tables",
        arguments: [
            ("album_id", "albums"), ("albumId", "album"), ("ALBUM_ID", "Albums"), ("AlbumID", "album"), ("id_album", "albums"),
            ("category_id", "categories"), ("box_id", "boxes"), ("person_id", "people"), ("class_id", "classes"),
        ])
    func names(_ column: String, _ table: String) async throws {
        let sql = "CREATE TABLE \(table) (id INTEGER PRIMARY KEY, x); CREATE TABLE things (id INTEGER PRIMARY KEY, \(column) INTEGER)"
        #expect(try await lines(sql) == ["strong things.\(column) -> \(table).id"])
    }

    @Test("A column that is named like the key of another table refers to it")
    func keyName() async throws {
        let sql = """
            CREATE TABLE Clients (CustomerID TEXT PRIMARY KEY NOT NULL, name TEXT);
            CREATE TABLE Orders (OrderID INTEGER PRIMARY KEY, CustomerID TEXT);
            """
        let found = try await suggestions(sql)
        #expect(found.map(\.setting.text) == ["Orders.CustomerID -> Clients.CustomerID"])
        #expect(found.first?.isRenumbered == false && found.first?.coverage == nil)
    }

    @Test("A name without id is a strong suggestion only if the values agree, and none if they do not")
    func nameWithoutID() async throws {
        let schema = "CREATE TABLE albums (id INTEGER PRIMARY KEY, album TEXT); CREATE TABLE items (id INTEGER PRIMARY KEY, album INTEGER);"
        let rows = "INSERT INTO albums SELECT value, 'x' FROM generated; INSERT INTO items SELECT value, value FROM generated"
        let generated = "WITH RECURSIVE generated(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generated WHERE value < 9)"
        let filled = rows.replacing("INSERT", with: "\(generated) INSERT")
        #expect(try await lines(schema) == ["weak items.album -> albums.id"])
        #expect(try await lines(schema + filled) == ["strong items.album -> albums.id"])
        #expect(try await lines(schema + "INSERT INTO items VALUES (1, 7), (2, 8)") == [])
        #expect(try await lines(schema.replacing("album INTEGER", with: "album TEXT")) == [])
    }

    @Test("Values that mostly have no parent make a weak suggestion of a telling name")
    func coverage() async throws {
        let schema = "CREATE TABLE albums (id INTEGER PRIMARY KEY); CREATE TABLE items (id INTEGER PRIMARY KEY, album_id INTEGER);"
        let found = try await suggestions(schema + "INSERT INTO albums VALUES (1); INSERT INTO items VALUES (1, 1), (2, 2), (3, 3), (4, 0)")
        #expect(found.map(\.strength) == [.weak])
        #expect(found.first?.coverage.map { Int($0 * 100) } == 33, "0 counts as none")
    }

    @Test("Triggers that look another table up, as Calibre's do")
    func triggers() async throws {
        let found = try await suggestions(
            """
            CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE comments (id INTEGER PRIMARY KEY, book INTEGER, text TEXT);
            CREATE TABLE link (id INTEGER PRIMARY KEY, what INTEGER);
            CREATE TRIGGER fkc_comments BEFORE INSERT ON comments BEGIN
                SELECT CASE WHEN (SELECT id FROM books WHERE id = NEW.book) IS NULL THEN RAISE(ABORT, 'no book') END;
            END;
            CREATE TRIGGER books_delete AFTER DELETE ON books BEGIN
                DELETE FROM link WHERE what = OLD.id;
                DELETE FROM comments WHERE book = OLD.id;
            END;
            """)
        #expect(found.map(\.setting.text).sorted() == ["comments.book -> books.id", "link.what -> books.id"])
        #expect(found.allSatisfy { $0.strength == .strong && $0.target.onDelete == .cascade })
    }

    @Test("Values alone suggest a reference if keys are sparse, as Anki's times are")
    func values() async throws {
        let rows = (1...30).map { number in
            let time = 1_600_000_000_000 + number * 7_919
            return "INSERT INTO notes VALUES (\(time), 'x'); INSERT INTO cards VALUES (\(number), \(time), \(number));"
        }
        let sql = "CREATE TABLE notes (id INTEGER PRIMARY KEY, x); CREATE TABLE cards (id INTEGER PRIMARY KEY, nid INTEGER, ord INTEGER);"
        #expect(try await lines(sql + rows.joined()) == ["weak cards.nid -> notes.id"])
        #expect(try await lines(sql) == [])
    }

    @Test("Declared and decided columns, keys and other types are left out")
    func leftOut() async throws {
        let schema = """
            CREATE TABLE albums (id INTEGER PRIMARY KEY);
            CREATE TABLE declared (id INTEGER PRIMARY KEY, album_id INTEGER REFERENCES albums (id));
            CREATE TABLE keyed (album_id INTEGER PRIMARY KEY);
            CREATE TABLE typed (id INTEGER PRIMARY KEY, album_id TEXT);
            CREATE TABLE decided (id INTEGER PRIMARY KEY, album_id INTEGER);
            CREATE TABLE added (id INTEGER PRIMARY KEY, album_id INTEGER);
            """
        let found = try await suggestions(
            schema,
            deciding: [
                ReferenceSetting(table: "decided", columns: ["album_id"], .none),
                ReferenceSetting(table: "added", columns: ["album_id"], to: ReferenceTarget(table: "albums", columns: ["id"])),
            ])
        #expect(found.map(\.setting.text) == [])
    }
}
