import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
public import GRDB

/// The values of a row at one moment, by column.
///
///     let stock = conflict.theirs?["stock"]
///     let product = try conflict.theirs?.decode(Product.self)
public struct RowSnapshot: Hashable, Sendable {
    /// Names of the stored columns whose values are known, in the table's order.
    public let columns: [String]
    private let values: [Value]

    init(_ table: DeclaredTable, _ values: [Value?]) {
        let known = table.columns.indices.filter { values[$0] != nil }
        columns = known.map { table.columns[$0].name }
        self.values = known.compactMap { values[$0] }
    }

    /// The value of a column, by its name in upper or lower case; nil if it is not known. SQL's NULL is `DatabaseValue.null`.
    public subscript(column: String) -> DatabaseValue? {
        columns.firstIndex { $0.isSameIdentifier(as: column) }.map { values[$0].databaseValue }
    }

    /// The row as a record.
    ///
    /// - Throws: errors of the record's decoding.
    public func decode<Record: FetchableRecord>(_ type: Record.Type = Record.self) throws -> Record {
        try Record(row: Row(Dictionary(zip(columns, values.map(\.databaseValue)), uniquingKeysWith: { $1 })))
    }
}

/// A row of the store with its identifier.
public struct StoredRow: Hashable, Sendable {
    public let identifier: PersistentIdentifier
    public let snapshot: RowSnapshot

    init(_ table: DeclaredTable, _ row: [Value]) {
        identifier = table.identifier(of: row)
        snapshot = RowSnapshot(table, row)
    }
}

extension DeclaredTable {
    func identifier(of row: [Value]) -> PersistentIdentifier {
        PersistentIdentifier(table: name, key: primaryKey.map { row[$0] })
    }
}
