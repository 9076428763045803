import AnnalsSQLite
import GRDB
import Testing

@Suite struct StoredBlobTests {
    static let pieces = [[UInt8](repeating: 1, count: 70_000), [2], [UInt8](repeating: 3, count: 65_536), []]

    private func queue() throws -> DatabaseQueue {
        let queue = try DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, b BLOB); INSERT INTO t VALUES(1, zeroblob(135537)), (2, x'0102')")
            try StoredBlob(db, table: "t", column: "b", row: 1, .write).write(Self.pieces)
        }
        return queue
    }

    @Test func `what is written in pieces is one value`() throws {
        try queue().read { db in
            let blob = try StoredBlob(db, table: "t", column: "b", row: 1, .read)
            let whole = Array(Self.pieces.joined())
            #expect(blob.byteCount == whole.count)
            #expect(try blob.read() == whole)
            #expect(try blob.read(69_999..<70_002) == [1, 2, 3])
            var read: [UInt8] = []
            try blob.forEachPiece {
                #expect($0.count <= StoredBlob.pieceBytes)
                read += $0
            }
            #expect(read == whole)
            try blob.move(to: 2)
            #expect(try blob.read(0..<blob.byteCount) == [1, 2])
        }
    }

    @Test func `rows that are not there and bytes beyond the end are errors`() throws {
        try queue().write { db in
            #expect(throws: DatabaseError.self) { try StoredBlob(db, table: "t", column: "b", row: 3, .read) }
            let blob = try StoredBlob(db, table: "t", column: "b", row: 2, .write)
            #expect(throws: DatabaseError.self) { try blob.read(0..<3) }
            #expect(throws: DatabaseError.self) { try blob.write([[1], [2, 3]]) }
            #expect(throws: DatabaseError.self) { try blob.move(to: 3) }
        }
    }
}
