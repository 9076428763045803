import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What the log says of tables and columns that this store does not have yet, cell by cell, by table and key.
///
/// It follows the log, and this replica's own entries once they are accepted: deletes, changes of keys and new lives of rows
/// alike. So when the store has migrated, what is kept is what the log comes to (laws 2 and 3). Of a row that has a cell
/// here in a column that the store lacks, the cell counts; of one that has none, the column's default does.
final class KeptRows {
    static let schema = """
        CREATE TABLE IF NOT EXISTS annals_kept (
            name TEXT NOT NULL,
            key BLOB NOT NULL,
            column_name TEXT NOT NULL,
            value,
            PRIMARY KEY (name, key, column_name)
        ) WITHOUT ROWID;
        """
    static let tables = ["annals_kept"]

    let lacking: Lacking
    private let db: Database
    private let select: PreparedStatement
    private let insert: PreparedStatement
    private let remove: PreparedStatement

    /// nil where the store lacks nothing.
    static func load(_ db: Database) throws -> KeptRows? {
        let lacking = try Lacking.load(db)
        return lacking.isEmpty ? nil : try KeptRows(db, lacking)
    }

    init(_ db: Database, _ lacking: Lacking) throws {
        self.db = db
        self.lacking = lacking
        select = try PreparedStatement(db, "SELECT column_name, value FROM annals_kept WHERE name = ?1 AND key = ?2")
        insert = try PreparedStatement(db, "INSERT OR REPLACE INTO annals_kept (name, key, column_name, value) VALUES (?1, ?2, ?3, ?4)")
        remove = try PreparedStatement(db, "DELETE FROM annals_kept WHERE name = ?1 AND key = ?2")
    }

    // MARK: One row

    func put(_ cells: [(column: String, value: Value)], table: String, key: [Value]) throws {
        let key = Self.encode(key)
        for cell in cells {
            bind(insert, table, key)
            insert.bind(3, .text(ByteString(Array(cell.column.foldedIdentifier.utf8))))
            insert.bind(4, cell.value)
            try insert.run()
        }
    }

    /// Takes all cells of a row out.
    @discardableResult
    func take(table: String, key: [Value]) throws -> [(column: String, value: Value)] {
        let key = Self.encode(key)
        bind(select, table, key)
        var cells: [(column: String, value: Value)] = []
        while try select.step() {
            if case .text(let name) = select.value(0), let name = name.string { cells.append((name, select.value(1))) }
        }
        select.reset()
        bind(remove, table, key)
        try remove.run()
        return cells
    }

    private func bind(_ statement: PreparedStatement, _ table: String, _ key: Value) {
        statement.bind(1, .text(ByteString(Array(table.foldedIdentifier.utf8))))
        statement.bind(2, key)
    }

    private static func encode(_ key: [Value]) -> Value {
        var writer = ByteWriter()
        writer.values(key)
        return .blob(ByteString(writer.bytes))
    }

    // MARK: All of a table

    /// Visits the rows of a table, cell by column.
    static func forEachRow(_ db: Database, of table: String, _ visit: (_ key: [Value], _ cells: [String: Value]) throws -> Void) throws {
        let statement = try PreparedStatement(db, "SELECT key, column_name, value FROM annals_kept WHERE name = ?1 ORDER BY key")
        statement.bind(1, .text(ByteString(Array(table.foldedIdentifier.utf8))))
        defer { statement.reset() }
        var key: Value?
        var cells: [String: Value] = [:]
        func finish() throws {
            guard case .blob(let bytes)? = key else { return }
            var reader = ByteReader(bytes.bytes, range: nil)
            try visit(reader.readValues(), cells)
        }
        while try statement.step() {
            let next = statement.value(0)
            if next != key {
                try finish()
                key = next
                cells = [:]
            }
            if case .text(let name) = statement.value(1), let name = name.string { cells[name] = statement.value(2) }
        }
        try finish()
    }

    static func forget(_ db: Database, _ table: String, columns: [String]) throws {
        for column in columns {
            try db.execute(
                sql: "DELETE FROM annals_kept WHERE name = ? AND column_name = ?",
                arguments: [table.foldedIdentifier, column.foldedIdentifier])
        }
    }

    static func clear(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_kept")
    }
}

/// One transaction's changes as far as they concern what is kept. They come in two passes, since rows may swap their keys.
final class KeptChanges {
    private let rows: KeptRows
    /// Rows that change their key, by the one that they had.
    private var moving: [Place: [(column: String, value: Value)]] = [:]

    private struct Place: Hashable {
        var table: String
        var key: [Value]
    }

    init(_ rows: KeptRows) {
        self.rows = rows
    }

    var lacking: Lacking { rows.lacking }

    /// Rows that go, or go elsewhere.
    func takeOut(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws {
        switch change.kind {
        case .insert: return
        case .delete: try rows.take(table: layout.name, key: layout.key.map { bytes.value(change.old[$0]) })
        case .update:
            let old = change.key.map(bytes.value)
            guard newKey(layout, change, bytes) != old else { return }
            moving[Place(table: layout.name.foldedIdentifier, key: old)] = try rows.take(table: layout.name, key: old)
        }
    }

    /// Rows and values that come.
    func put(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws {
        func cells(_ columns: [Int], _ values: [WireValue]) -> [(column: String, value: Value)] {
            zip(columns, values).compactMap { column, value in
                let name = layout.columns[column]
                return lacking.has(name, of: layout.name) ? (name, bytes.value(value)) : nil
            }
        }
        switch change.kind {
        case .delete: return
        case .insert:
            let key = layout.key.map { bytes.value(change.new[$0]) }
            // What an earlier row left under this key went with it.
            try rows.put(cells(Array(change.new.indices), change.new), table: layout.name, key: key)
        case .update:
            let key = newKey(layout, change, bytes)
            let old = change.key.map(bytes.value)
            if key != old, let moved = moving.removeValue(forKey: Place(table: layout.name.foldedIdentifier, key: old)) {
                try rows.put(moved, table: layout.name, key: key)
            }
            try rows.put(cells(change.columns, change.new), table: layout.name, key: key)
        }
    }

    /// Both passes over a transaction of this replica's own.
    func follow(_ content: TransactionParts) throws {
        for pass in [takeOut, put] {
            var change = WireChange()
            try content.forEach { part in
                var reader = part.reader
                while let reference = try reader.nextTable() {
                    guard let layout = part.layouts[reference] else { throw MergeError.unknownLayout(reference) }
                    guard lacking.touches(layout.name) else { continue }
                    while try reader.nextChange(into: &change) {
                        try reader.withBytes { bytes in try pass(layout, change, bytes) }
                    }
                }
            }
        }
    }

    private func newKey(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) -> [Value] {
        var key = change.key.map(bytes.value)
        for (index, column) in change.columns.enumerated() {
            if let place = layout.key.firstIndex(of: column) { key[place] = bytes.value(change.new[index]) }
        }
        return key
    }
}

extension BodyReader {
    fileprivate func withBytes(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows { try bytes.withUnsafeBytes(body) }
}
