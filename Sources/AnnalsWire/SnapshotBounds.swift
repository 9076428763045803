/// Compares the unpacked size of a snapshot with the size in its SQLite header while it arrives. So a few bytes of zstd
/// cannot fill a disk.
package struct SnapshotBounds {
    private var head: [UInt8] = []
    private var header: SQLiteHeader?
    private var count: Int64 = 0

    package init() {}

    /// Checks the next bytes. Call it before they are written.
    ///
    /// - Parameters:
    ///   - bytes: the unpacked bytes.
    ///   - packed: how many bytes of the packed file were read so far.
    /// - Throws: `badValue` if it is not the file of a snapshot. `tooLarge` if it exceeds the size in its header, or
    ///   the size that so few packed bytes can give.
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

    /// Throws `badLength` if the file does not have the size in its header.
    package func finish() throws(WireError) {
        guard let header, count == header.byteCount else { throw .badLength }
    }
}
