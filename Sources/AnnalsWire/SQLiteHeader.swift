/// The page size and page count in the first 100 bytes of a SQLite file (https://sqlite.org/fileformat2.html, section
/// 1.3).
package struct SQLiteHeader: Hashable, Sendable {
    /// The size of the header, in bytes.
    package static let length = 100
    private static let magic = Array("SQLite format 3\0".utf8)
    private static let rollbackJournal: UInt8 = 1

    /// The size of a page, in bytes.
    package let pageSize: Int64
    package let pageCount: Int64
    /// The size of the whole file, in bytes.
    package var byteCount: Int64 { pageSize * pageCount }

    /// nil if no snapshot can begin with these bytes: they are not a SQLite header, there are fewer than 100, the file
    /// is in WAL mode and may have rows in another file, or the header does not state the page count.
    package init?(_ bytes: [UInt8]) {
        func number(_ place: Int, _ count: Int) -> Int64 { bytes[place..<place + count].reduce(0) { $0 << 8 | Int64($1) } }
        guard bytes.count >= Self.length, bytes.starts(with: Self.magic),
            bytes[18] == Self.rollbackJournal, bytes[19] == Self.rollbackJournal
        else { return nil }
        let size = number(16, 2)
        pageSize = size == 1 ? 65_536 : size
        pageCount = number(28, 4)
        // A program that does not support the page count leaves it unchanged and changes only the first of these two
        // numbers.
        guard (512...65_536).contains(pageSize), pageSize & (pageSize - 1) == 0, pageCount > 0, number(24, 4) == number(92, 4) else {
            return nil
        }
    }
}
