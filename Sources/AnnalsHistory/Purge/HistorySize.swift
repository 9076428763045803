import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The number of bytes that history takes in the file, estimated from samples. Reading every page of a large history would take
/// long.
///
/// Raw changes are numbered without gaps and written in order. So a table's size is about the number of its rows times the average
/// size of a row. The layout of records in pages is in https://sqlite.org/fileformat2.html, sections 1.6 and 2.1.
package struct HistorySize {
    private let db: Database
    private let tables: [Table]

    private struct Table {
        var id: Int64
        /// For each sample, its id and the size of a raw change. The size is used for the `step` changes from there.
        var samples: [(first: Int64, bytes: Double)] = []
        var step: Int64 = 1
        var last: Int64 = 0

        /// The size of the raw changes after an id.
        func bytes(after id: Int64) -> Double {
            samples.reduce(0) { sum, sample in
                let count = min(sample.first + step - 1, last) - max(sample.first - 1, id)
                return sum + Double(max(0, count)) * sample.bytes
            }
        }
    }

    /// The number of samples of each table, spread evenly.
    private static let samples: Int64 = 200
    /// The size of a transaction and of a span, with their share of the page.
    private static let bytesPerTransaction = 100.0
    private static let bytesPerSpan = 16.0
    /// A cell's pointer, and the length of the record's header. The cell's length and rowid are added.
    private static let bytesPerCell = 3

    /// The number of bytes that the tables, indexes and triggers of Annals take without rows: a page for each root, and the declarations.
    package static func tracking(_ db: Database) throws -> Int64 {
        let isOwn = "LIKE 'annals\\_%' ESCAPE '\\'"
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT ifnull(sum(length(type) + length(name) + length(tbl_name) + ifnull(length(CAST(sql AS BLOB)), 0) + \(bytesPerObject)), 0)
                  + count(*) FILTER (WHERE rootpage > 0) * (SELECT page_size FROM pragma_page_size)
                FROM main.sqlite_master WHERE name \(isOwn) OR tbl_name \(isOwn)
                """) ?? 0
    }

    /// The headers of a row of `sqlite_master` and of its record, and its root.
    private static let bytesPerObject = 16

    package init(_ db: Database) throws {
        self.db = db
        tables = try TrackedTable.fetchAll(db).map { try Self.sample(db, $0) }
    }

    private static func sample(_ db: Database, _ table: TrackedTable) throws -> Table {
        let name = "main.\(StoreSchema.changesTable(table.id))"
        let ends = try GRDB.Row.fetchOne(db, sql: "SELECT (SELECT min(id) FROM \(name)) AS first, (SELECT max(id) FROM \(name)) AS last")
        guard let ends, try ends.value("last") != Int64?.none else {
            return Table(id: table.id)
        }
        let (first, last): (Int64, Int64) = try (ends.number("first"), ends.number("last"))
        let columns = StoreSchema.changesColumns(table.columns.count, byRowid: table.key.isByRowid).dropFirst()
        let size = SQL.balanced(columns.map(stored), operator: "+")
        let page = try PageRoom(db)
        let statement = try db.makeStatement(sql: "SELECT \(size) FROM \(name) WHERE id >= ? ORDER BY id LIMIT 1")
        var sampled = Table(id: table.id, step: max(1, (last - first + samples) / samples), last: last)
        for id in stride(from: first, through: last, by: Int64.Stride(sampled.step)) {
            let size = try Int64.fetchOne(statement, arguments: [id]) ?? 0
            let cell = Int(size) + bytesPerCell + varint(size) + varint(id)
            sampled.samples.append((id, page.bytes(of: cell)))
        }
        return sampled
    }

    /// The length of a variable-length integer.
    private static func varint(_ number: Int64) -> Int { number < 1 << 7 ? 1 : number < 1 << 14 ? 2 : number < 1 << 21 ? 3 : 4 }

    /// SQL for the size of a value in a record, including its type in the header.
    private static func stored(_ column: String) -> String {
        let integers = [(7, 2), (15, 3), (23, 4), (31, 5), (47, 7)].map { bits, bytes in
            "WHEN \(column) BETWEEN \(-(1 << bits)) AND \((1 << bits) - 1) THEN \(bytes)"
        }
        let length = "length(CAST(\(column) AS BLOB))"
        return """
            CASE typeof(\(column)) WHEN 'null' THEN 1 WHEN 'real' THEN 9
              WHEN 'integer' THEN CASE WHEN \(column) IN (0, 1) THEN 1 \(integers.joined(separator: " ")) ELSE 9 END
              ELSE \(length) + CASE WHEN \(length) < 58 THEN 1 WHEN \(length) < 8186 THEN 2 ELSE 3 END END
            """
    }

    /// The size of the whole history in bytes.
    package func total() throws -> Double {
        try size(after: 0)
    }

    /// History's share of the whole file, between 0 and 1.
    package func share() throws -> Double {
        let file = try Self.file(db)
        return file > 0 ? try min(1, total() / file) : 0
    }

    /// The size of what is not history, in bytes. The estimate of history can be larger than it is, so every other table and index counts
    /// at least one page.
    package func others() throws -> Double {
        let history = [OwnTables.transactions, OwnTables.spans] + tables.map { StoreSchema.changesTable($0.id) }
        let trees = try Int64.fetchOne(
            db,
            sql: """
                SELECT count(*) FROM main.sqlite_master
                WHERE rootpage > 0 AND tbl_name NOT IN (\(history.map(SQL.literal).joined(separator: ", ")))
                """)
        let pageSize = try Int64.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        return try max(Self.file(db) - total(), Double((trees ?? 0) * pageSize))
    }

    /// The size of the transactions after a number, in bytes.
    package func size(after number: Int64) throws -> Double {
        let transactions = try TransactionTable(db).count(after: number)
        var sum = Double(transactions) * Self.bytesPerTransaction
        for table in tables where !table.samples.isEmpty {
            sum += try table.bytes(after: SpanTable(db).end(of: table.id, upTo: number) ?? 0)
        }
        return sum + Double(transactions) * Self.bytesPerSpan
    }

    /// The oldest point after which history takes at most this number of bytes, found by bisection.
    package func number(leaving bytes: Double, _ bounds: HistoryBounds) throws -> Int64 {
        var low = bounds.oldest.number
        var high = bounds.latest.number
        guard try size(after: low) > bytes else { return low }
        while low < high {
            let middle = low + (high - low) / 2
            if try size(after: middle) > bytes { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The size of the whole file in bytes, without free pages.
    package static func file(_ db: Database) throws -> Double {
        let pages = try ["page_count", "freelist_count", "page_size"].map { try Int64.fetchOne(db, sql: "PRAGMA main.\($0)") ?? 0 }
        return Double((pages[0] - pages[1]) * pages[2])
    }
}

/// How much of a file's pages a record takes.
private struct PageRoom {
    private let pageSize: Int
    private let usable: Int

    /// SQLite extensions may reserve the last bytes of a page, which SQL cannot query. Most files reserve none.
    init(_ db: Database) throws {
        pageSize = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4_096
        usable = pageSize
    }

    /// - Parameter size: the size of the record and its cell.
    func bytes(of size: Int) -> Double {
        guard size > usable - 35 else { return local(size) }
        let least = (usable - 12) * 32 / 255 - 23
        let rest = least + (size - least) % (usable - 4)
        let kept = rest <= usable - 35 ? rest : least
        let overflow = (size - kept + usable - 5) / (usable - 4)
        return local(kept) + Double(overflow * pageSize)
    }

    /// A page holds as many cells of one size as fit.
    private func local(_ size: Int) -> Double {
        Double(pageSize) / Double(max(1, (usable - 8) / max(size, 1)))
    }
}
