import AnnalsSQLite
import AnnalsWire
import GRDB

/// Reads the bodies of the outbox for a batch: small ones as a whole, large ones piece by piece.
final class OutboxBodies {
    private let db: Database
    private var blob: StoredBlob?

    init(_ db: Database) {
        self.db = db
    }

    /// The body of a row, and the layout numbers of the tables that it changes.
    package func body(of sequence: Int64) throws -> (body: BatchBody, byteCount: Int, tables: [Int]) {
        let blob = try blob(at: sequence)
        let byteCount = blob.byteCount
        var head = try blob.read(0..<min(byteCount, StoredBlob.pieceBytes))
        if head.count < byteCount, let tables = try? BodyReader(bytes: head).tables {
            let body = BatchBody(head: head, byteCount: byteCount) { visit in try self.blob(at: sequence).forEachPiece(visit) }
            return (body, byteCount, tables)
        }
        // The head of the body alone is larger than a piece.
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
