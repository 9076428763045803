import AnnalsSQLite
import AnnalsWire
import GRDB

/// The outbox's bodies as a batch takes them: small ones in memory, large ones piece by piece from the file.
final class OutboxBodies {
    private let db: Database
    private var blob: StoredBlob?

    init(_ db: Database) {
        self.db = db
    }

    /// The body of a row with the numbers of the tables that it names.
    package func body(of sequence: Int64) throws -> (body: BatchBody, byteCount: Int, tables: [Int]) {
        let blob = try blob(at: sequence)
        let byteCount = blob.byteCount
        var head = try blob.read(0..<min(byteCount, StoredBlob.pieceBytes))
        if head.count < byteCount, let tables = try? BodyReader(bytes: head).tables {
            let body = BatchBody(head: head, byteCount: byteCount) { visit in try self.blob(at: sequence).forEachPiece(visit) }
            return (body, byteCount, tables)
        }
        // Its head alone is larger than a piece.
        if head.count < byteCount { head = try blob.read() }
        return (BatchBody(head), byteCount, try BodyReader(bytes: head).tables)
    }

    private func blob(at sequence: Int64) throws -> StoredBlob {
        if let blob {
            try blob.move(to: sequence)
            return blob
        }
        let opened = try Outbox.body(db, of: sequence)
        blob = opened
        return opened
    }
}
