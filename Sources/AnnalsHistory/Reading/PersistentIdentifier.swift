public import AnnalsCore
import AnnalsSchema
import Foundation
public import GRDB

/// A row by table and key, without its values: equal on every replica of a space, and good for keeping.
///
///     let ids = try reader.touchedRows(in: transaction)
///     for id in ids where id.table == "invoice" { show(try id.fetch(db)) }
///
/// An integer key that the space has not ordered yet may become another one: it is provisional until then.
public struct PersistentIdentifier: Hashable, Sendable {
    /// As the schema spells it.
    public var table: String
    /// The values of the primary key, in the key's order.
    public var key: [Value]

    public init(table: String, key: [Value]) {
        self.table = table
        self.key = key
    }

    /// The row as it is now; nil where there is none.
    ///
    /// - Throws: what GRDB does, as for a table that is gone.
    public func fetch(_ db: Database) throws -> GRDB.Row? {
        let columns = try db.primaryKey(table).columns
        guard columns.count == key.count else { return nil }
        let condition = columns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        let rows = try GRDB.Row.fetchCursor(
            db, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(condition)",
            arguments: StatementArguments(key.map(\.databaseValue)))
        // The columns may take keys for one that the key's index tells apart.
        var found: GRDB.Row?
        while let row = try rows.next() {
            if zip(columns, key).allSatisfy({ row[$0] == $1.databaseValue }) { return row.copy() }
            found = found ?? row.copy()
        }
        return found
    }
}

/// As an app keeps it: `{"table": "seat", "key": [12, "A"]}`.
extension PersistentIdentifier: Codable {
    private enum CodingKeys: String, CodingKey { case table, key }

    /// One value of a key. JSON has no other form for what is neither a text nor an integer.
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
    /// The same value as GRDB has it.
    public var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let value): String(decoding: value.bytes, as: UTF8.self).databaseValue
        case .blob(let value): Data(value.bytes).databaseValue
        }
    }

    /// A value of GRDB's; −0.0 becomes 0.0, as SQLite stores it.
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
    /// The row that it is about, as it was called before an update or delete, and is after an insert.
    public var identifier: PersistentIdentifier { PersistentIdentifier(table: table, key: key) }

    /// What the row is called after an update; nil for a delete.
    public var identifierAfter: PersistentIdentifier? {
        switch kind {
        case .insert: identifier
        case .delete: nil
        case .update:
            PersistentIdentifier(
                table: table, key: zip(keyColumns, key).map { name, value in columns.first { $0.name == name }?.new ?? value })
        }
    }

    /// The row that it is about; two where the row got another key.
    public var touchedRows: [PersistentIdentifier] {
        guard let after = identifierAfter, after != identifier else { return [identifier] }
        return [identifier, after]
    }
}

extension HistoryReader {
    /// The rows that a transaction touched, each once; with a request, only those that it asks for.
    public func touchedRows(
        in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()
    ) throws -> [PersistentIdentifier] {
        var rows = DistinctRows()
        try forEachChange(in: transaction, request) { rows.add($0.touchedRows) }
        return rows.all
    }

    /// The rows that a request's transactions touched, each once, the first touched first. Memory is that of the keys.
    public func touchedRows(_ request: HistoryRequest) throws -> [PersistentIdentifier] {
        var rows = DistinctRows()
        try forEachTransaction(request) { transaction in
            try forEachChange(in: transaction, request) { rows.add($0.touchedRows) }
            return true
        }
        return rows.all
    }

    /// Each row once, in the order in which they came first.
    private struct DistinctRows {
        private(set) var all: [PersistentIdentifier] = []
        private var seen: Set<PersistentIdentifier> = []

        mutating func add(_ rows: [PersistentIdentifier]) {
            for row in rows where seen.insert(row).inserted { all.append(row) }
        }
    }
}
