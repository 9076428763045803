/// A body for a batch, either in memory or readable in pieces.
///
/// With pieces, a large transaction is never completely in memory while it is packed.
package struct BatchBody {
    /// The beginning of the body, at least up to the end of the list of tables.
    let head: [UInt8]
    let byteCount: Int
    let forEachPiece: (_ visit: (UnsafeRawBufferPointer) throws -> Void) throws -> Void

    package init(_ bytes: [UInt8]) {
        head = bytes
        byteCount = bytes.count
        forEachPiece = { visit in try bytes.withUnsafeBytes(visit) }
    }

    /// - Parameters:
    ///   - head: the beginning of the body, long enough for a `BodyReader`.
    ///   - byteCount: the size of the whole body with its head, in bytes.
    ///   - forEachPiece: visits the whole body from the start. It may be called more than once.
    package init(head: [UInt8], byteCount: Int, forEachPiece: @escaping (_ visit: (UnsafeRawBufferPointer) throws -> Void) throws -> Void) {
        self.head = head
        self.byteCount = byteCount
        self.forEachPiece = forEachPiece
    }
}
