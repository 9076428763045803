public import AnnalsCore
import AnnalsSchema
import Foundation
public import GRDB

/// A row's table and key without its values. It is equal on all replicas of a space, and can be stored.
///
///     let ids = try reader.touchedRows(in: transaction)
///     for id in ids where id.table == "invoice" { show(try id.fetch(db)) }
///
/// An integer key may change until the space has ordered it; it is provisional until then.
public struct PersistentIdentifier: Hashable, Sendable {
    /// In the spelling of the schema.
    public var table: String
    /// The values of the primary key, in the key's order.
    public var key: [Value]

    public init(table: String, key: [Value]) {
        self.table = table
        self.key = key
    }

    /// The current row as a record; nil if there is none.
    ///
    ///     let invoice = try identifier.fetch(Invoice.self, in: db)
    ///
    /// - Throws: errors of GRDB, for example if the row cannot be decoded.
    public func fetch<Record: FetchableRecord>(_ type: Record.Type, in db: Database) throws -> Record? {
        try fetch(db).map { try Record(row: $0) }
    }

    /// The current row; nil if there is none.
    ///
    /// - Throws: errors of GRDB, for example if the table does not exist.
    public func fetch(_ db: Database) throws -> GRDB.Row? {
        let columns = try db.primaryKey(table).columns
        guard columns.count == key.count else { return nil }
        let condition = columns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        let rows = try GRDB.Row.fetchCursor(
            db, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(condition)",
            arguments: StatementArguments(key.map(\.databaseValue)))
        // Under the columns' collations two keys may be equal that differ in the key's index.
        var found: GRDB.Row?
        while let row = try rows.next() {
            if zip(columns, key).allSatisfy({ row[$0] == $1.databaseValue }) { return row.copy() }
            found = found ?? row.copy()
        }
        return found
    }
}

extension PersistentIdentifier: CustomStringConvertible {
    /// The table and the key, as in `seat(12, 'A')`.
    public var description: String { "\(table)(\(key.map(\.description).joined(separator: ", ")))" }
}

/// The stored form in an app: `{"table": "seat", "key": [12, "A"]}`.
extension PersistentIdentifier: Codable {
    private enum CodingKeys: String, CodingKey { case table, key }

    /// One value of a key. Values that are neither text nor integer are objects in JSON.
    private struct Part: Codable {
        private enum CodingKeys: String, CodingKey { case real, blob }

        var value: Value

        init(value: Value) { self.value = value }

        init(from decoder: any Decoder) throws {
            let single = try decoder.singleValueContainer()
            if single.decodeNil() {
                value = .null
            } else if let integer = try? single.decode(Int64.self) {
                value = .integer(integer)
            } else if let text = try? single.decode(String.self) {
                value = .text(text)
            } else {
                let other = try decoder.container(keyedBy: CodingKeys.self)
                if let real = try other.decodeIfPresent(Double.self, forKey: .real) {
                    value = .real(real)
                } else {
                    value = .blob([UInt8](try other.decode(Data.self, forKey: .blob)))
                }
            }
        }

        func encode(to encoder: any Encoder) throws {
            switch value {
            case .null:
                var container = encoder.singleValueContainer()
                try container.encodeNil()
            case .integer(let integer):
                var container = encoder.singleValueContainer()
                try container.encode(integer)
            case .text(let text):
                var container = encoder.singleValueContainer()
                try container.encode(String(decoding: text.bytes, as: UTF8.self))
            case .real(let real):
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(real, forKey: .real)
            case .blob(let blob):
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(Data(blob.bytes), forKey: .blob)
            }
        }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let table = try container.decode(String.self, forKey: .table)
        self.init(table: table, key: try container.decode([Part].self, forKey: .key).map(\.value))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(table, forKey: .table)
        try container.encode(key.map(Part.init), forKey: .key)
    }
}

extension Value {
    /// The same value for GRDB.
    public var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let value): String(decoding: value.bytes, as: UTF8.self).databaseValue
        case .blob(let value): Data(value.bytes).databaseValue
        }
    }

    /// A value from GRDB. −0.0 becomes 0.0, as SQLite stores it.
    public init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let integer): self = .integer(integer)
        case .double(let real): self = .real(real + 0)
        case .string(let text): self = .text(text)
        case .blob(let data): self = .blob([UInt8](data))
        }
    }
}

extension HistoryChange {
    /// The changed row, under its identifier before an update or delete, or after an insert.
    public var identifier: PersistentIdentifier { PersistentIdentifier(table: table, key: key) }

    /// A column of the change by its name; nil if an update did not change it, or if the table does not have it.
    ///
    ///     if let price = change["price"] { print(price.old ?? .null, "→", price.new ?? .null) }
    public subscript(column: String) -> Column? { columns.first { $0.name.isSameIdentifier(as: column) } }

    /// The inserted or deleted row as a record.
    ///
    /// - Throws: `AnnalsError` with code `usage` for an update, which has only the changed columns: use `identifierAfter` to fetch the
    ///   row. Errors of the record.
    public func decode<Record: FetchableRecord>(_ type: Record.Type) throws -> Record {
        guard kind != .update else {
            throw AnnalsError(
                .usage, operation: "history", "the change of \(identifier) is an update and has only the changed columns",
                hint: "Fetch the row with identifierAfter, or read the columns by name")
        }
        let values = columns.map { ($0.name, (kind == .insert ? $0.new : $0.old)?.databaseValue as (any DatabaseValueConvertible)?) }
        return try Record(row: GRDB.Row(Dictionary(values, uniquingKeysWith: { $1 })))
    }

    /// The row's identifier after an update; nil for a delete.
    public var identifierAfter: PersistentIdentifier? {
        switch kind {
        case .insert: identifier
        case .delete: nil
        case .update:
            PersistentIdentifier(
                table: table, key: zip(keyColumns, key).map { name, value in columns.first { $0.name == name }?.new ?? value })
        }
    }

    /// The changed row; two identifiers if the row got another key.
    public var touchedRows: [PersistentIdentifier] {
        guard let after = identifierAfter, after != identifier else { return [identifier] }
        return [identifier, after]
    }
}

extension HistoryReader {
    /// The rows that a transaction changed, each once; with a request, only those that match it.
    public func touchedRows(
        in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()
    ) throws -> [PersistentIdentifier] {
        var rows = DistinctRows()
        try forEachChange(in: transaction, request) { rows.add($0.touchedRows) }
        return rows.all
    }

    /// The rows that a request's transactions changed, each once, in the order of their first change. All keys are in memory at
    /// once.
    public func touchedRows(_ request: HistoryRequest) throws -> [PersistentIdentifier] {
        var rows = DistinctRows()
        try forEachTransaction(request) { transaction in
            try forEachChange(in: transaction, request) { rows.add($0.touchedRows) }
            return true
        }
        return rows.all
    }

    /// Each row once, in the order of first occurrence.
    private struct DistinctRows {
        private(set) var all: [PersistentIdentifier] = []
        private var seen: Set<PersistentIdentifier> = []

        mutating func add(_ rows: [PersistentIdentifier]) {
            for row in rows where seen.insert(row).inserted { all.append(row) }
        }
    }
}
