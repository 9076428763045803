/// Holds what a snapshot unpacks to against the size that its own header says, while it comes: a few bytes of zstd cannot fill a disk.
package struct SnapshotBounds {
    private var head: [UInt8] = []
    private var header: SQLiteHeader?
    private var count: Int64 = 0

    package init() {}

    /// Takes what comes next, before it is written anywhere.
    ///
    /// - Parameters:
    ///   - bytes: what was unpacked.
    ///   - packed: bytes of the packed file that were read until now.
    /// - Throws: `badValue` where it is no snapshot's file, `tooLarge` beyond the size that it says, or that so few bytes give.
    package mutating func take(_ bytes: UnsafeRawBufferPointer, packed: Int64) throws(WireError) {
        count += Int64(bytes.count)
        if header == nil {
            head.append(contentsOf: bytes.prefix(SQLiteHeader.length - head.count))
            guard head.count == SQLiteHeader.length else { return }
            header = SQLiteHeader(head)
        }
        guard let header else { throw .badValue("SQLite header") }
        guard count <= header.byteCount else { throw .tooLarge("file") }
        guard count <= WireLimits.snapshotBytesOfAnyRatio || count / WireLimits.snapshotRatio < packed else {
            throw .tooLarge("compression")
        }
    }

    /// Throws `badLength` unless the file has the size that it says.
    package func finish() throws(WireError) {
        guard let header, count == header.byteCount else { throw .badLength }
    }
}
