import AnnalsCore
import AnnalsWire
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Digest of the tracked rows")
struct StoreDigestTests {
    private func digest(_ sql: String, track tables: [String] = []) throws -> Digest {
        let store = try HistoryFile(sql)
        try store.queue.write { db in _ = try Tracking.track(db, tables.isEmpty ? .all : .tables(tables)) }
        return try store.digest()
    }

    private static let schema = "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, b, a); CREATE TABLE U(id INTEGER PRIMARY KEY, x);"

    @Test("The physical order of rows, tables and columns does not matter, nor the spelling of names")
    func physicalOrder() throws {
        let first = try digest(Self.schema + "INSERT INTO t VALUES('x', 1, 2), ('y', 3, 4); INSERT INTO u VALUES(1, 2)")
        #expect(try digest(Self.schema + "INSERT INTO u VALUES(1, 2); INSERT INTO t VALUES('y', 3, 4), ('x', 1, 2)") == first)
        #expect(
            try digest(
                """
                CREATE TABLE u(x, ID INTEGER PRIMARY KEY); CREATE TABLE T(a, k TEXT NOT NULL PRIMARY KEY, b) WITHOUT ROWID;
                INSERT INTO T(k, b, a) VALUES('x', 1, 2), ('y', 3, 4); INSERT INTO u VALUES(2, 1)
                """) == first)
        #expect(
            try digest(
                "PRAGMA encoding = 'UTF-16be';" + Self.schema + "INSERT INTO t VALUES('x', 1, 2), ('y', 3, 4); INSERT INTO u VALUES(1, 2)")
                == first)
    }

    @Test("The order of UTF-16 text is that of UTF-8")
    func encodings() throws {
        let rows = "INSERT INTO t VALUES('\u{FF5E}', 1, 2), ('𝄞', 3, 4), ('Ā', 5, 6), ('a', 7, 8), (9, 9, 9), (x'00', 1, 1)"
        let first = try digest(Self.schema + rows)
        for encoding in ["UTF-16le", "UTF-16be"] {
            #expect(try digest("PRAGMA encoding = '\(encoding)';" + Self.schema + rows) == first)
        }
    }

    @Test(
        "Any other value, storage class, row or table is another digest",
        arguments: [
            "UPDATE t SET a = 3 WHERE k = 'x'", "UPDATE t SET a = 2.0 WHERE k = 'x'", "UPDATE t SET a = '2' WHERE k = 'x'",
            "UPDATE t SET a = x'32' WHERE k = 'x'", "UPDATE t SET a = NULL WHERE k = 'x'", "DELETE FROM t WHERE k = 'x'",
            "INSERT INTO u VALUES(7, NULL)", "UPDATE t SET a = b, b = a WHERE k = 'x'", "UPDATE t SET k = 'X' WHERE k = 'x'",
        ])
    func differences(edit: String) throws {
        let rows = Self.schema + "INSERT INTO t VALUES('x', 1, 2), ('y', 3, 4);"
        #expect(try digest(rows + edit) != digest(rows))
    }

    @Test("Rows without a key and untracked tables are left out")
    func leftOut() throws {
        let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, a); CREATE TABLE other(id INTEGER PRIMARY KEY); INSERT INTO t VALUES('x', 1);"
        let first = try digest(schema, track: ["t"])
        #expect(try digest(schema + "INSERT INTO t VALUES(NULL, 5); INSERT INTO other VALUES(1)", track: ["t"]) == first)
        #expect(try digest(schema, track: ["t", "other"]) != first)
    }

    @Test("The digest is what its description says")
    func description() throws {
        var bytes = ByteWriter()
        bytes.bytes(Array("annals digest 1\n".utf8))
        bytes.byte(1)
        bytes.string("t")
        bytes.varint(2)
        bytes.string("a")
        bytes.string("k")
        for (key, a) in [(Value.text("x"), Value.real(1.5)), (.text("y"), .null)] {
            bytes.byte(2)
            bytes.value(a)
            bytes.value(key)
        }
        bytes.byte(0)
        #expect(
            try digest("CREATE TABLE T(K TEXT NOT NULL PRIMARY KEY, a); INSERT INTO T VALUES('y', NULL), ('x', 1.5)")
                == .sha256(bytes.bytes[...]))
    }
}
