/// A body that goes into a batch, where it lies: in memory, or where it can be read piece by piece.
///
/// So a large transaction is never in memory as a whole while it is packed.
package struct BatchBody {
    /// Its beginning, as far as the list of its tables at least.
    let head: [UInt8]
    let byteCount: Int
    let forEachPiece: (_ visit: (UnsafeRawBufferPointer) throws -> Void) throws -> Void

    package init(_ bytes: [UInt8]) {
        head = bytes
        byteCount = bytes.count
        forEachPiece = { visit in try bytes.withUnsafeBytes(visit) }
    }

    /// - Parameters:
    ///   - head: the beginning of the body, enough to make a `BodyReader` of.
    ///   - byteCount: bytes of the whole body, head included.
    ///   - forEachPiece: visits all of it from the start, and may be asked to more than once.
    package init(head: [UInt8], byteCount: Int, forEachPiece: @escaping (_ visit: (UnsafeRawBufferPointer) throws -> Void) throws -> Void) {
        self.head = head
        self.byteCount = byteCount
        self.forEachPiece = forEachPiece
    }
}
