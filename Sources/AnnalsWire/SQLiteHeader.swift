/// What the first 100 bytes of a SQLite file say about its size (https://sqlite.org/fileformat2.html, section 1.3).
package struct SQLiteHeader: Hashable, Sendable {
    /// Bytes that it takes.
    package static let length = 100
    private static let magic = Array("SQLite format 3\0".utf8)
    private static let rollbackJournal: UInt8 = 1

    /// In bytes.
    package let pageSize: Int64
    package let pageCount: Int64
    /// Bytes of the whole file.
    package var byteCount: Int64 { pageSize * pageCount }

    /// nil for bytes that no snapshot begins with: of another kind or too few, of a file in WAL mode, which may have a part of its rows in
    /// another file, and of one that does not say how many pages it has.
    package init?(_ bytes: [UInt8]) {
        func number(_ place: Int, _ count: Int) -> Int64 { bytes[place..<place + count].reduce(0) { $0 << 8 | Int64($1) } }
        guard bytes.count >= Self.length, bytes.starts(with: Self.magic),
            bytes[18] == Self.rollbackJournal, bytes[19] == Self.rollbackJournal
        else { return nil }
        let size = number(16, 2)
        pageSize = size == 1 ? 65_536 : size
        pageCount = number(28, 4)
        // A program that does not know of the count leaves it as it was, and changes the first of these two numbers alone.
        guard (512...65_536).contains(pageSize), pageSize & (pageSize - 1) == 0, pageCount > 0, number(24, 4) == number(92, 4) else {
            return nil
        }
    }
}
