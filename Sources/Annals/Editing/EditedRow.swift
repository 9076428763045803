import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
public import GRDB

/// A record type that can be read from rows and written to them.
public typealias EditableRecord = FetchableRecord & MutablePersistableRecord & Sendable

/// A row in an edit context. Its values are indexed like the stored columns of its table.
struct EditedRow: Sendable {
    var table: DeclaredTable
    /// The values that were read; nil for a new row. The value of a column is nil if it was not read.
    var base: [Value?]?
    /// The values to save; nil if the row is to be deleted.
    var now: [Value?]?
    /// Generated columns as they were read, for records that read them.
    var generated: [String: DatabaseValue] = [:]
    /// The app's record of the row, once it was edited.
    var record: (any EditableRecord)?
    /// The row was read elsewhere, so `base` holds what its record would write, not the stored values.
    var isAdopted = false
    /// The key is provisional; SQLite assigns the real one.
    var hasProvisionalKey = false
    /// The number of the transaction of history up to which renumberings are applied.
    var asOf: Int64
    /// The rank of the first edit among all edits; zero if the row was not edited.
    var order = 0

    var isInserted: Bool { base == nil && now != nil }
    var isDeleted: Bool { base != nil && now == nil }
    /// Most rows were never edited and need no comparison.
    var hasEdits: Bool { order != 0 && (isInserted || isDeleted || !changed.isEmpty) }

    /// Indexes of the edited columns; empty for new and deleted rows.
    var changed: [Int] {
        guard let base, let now else { return [] }
        return base.indices.filter { now[$0] != base[$0] }
    }

    /// The row as a record of some type, with its edits.
    func decode<Record: FetchableRecord>(_ type: Record.Type) throws -> Record {
        try RecordCoding.decode(type, now ?? [], table, generated)
    }
}

/// Converts records to values indexed by stored column, and back.
enum RecordCoding {
    /// The values that a record would write; nil for each column that it does not write.
    static func encode(_ record: some EditableRecord, _ table: DeclaredTable) throws -> [Value?] {
        var values = [Value?](repeating: nil, count: table.columns.count)
        for (name, value) in try record.databaseDictionary {
            if let columnIndex = table.columnIndex(of: name) {
                values[columnIndex] = Value(value)
            } else if !table.generatedColumns.contains(where: { $0.name.isSameIdentifier(as: name) }) {
                throw AnnalsError.editing("the table \(table.name) has no column \(name)")
            }
        }
        return values
    }

    static func decode<Record: FetchableRecord>(
        _ type: Record.Type, _ values: [Value?], _ table: DeclaredTable, _ generated: [String: DatabaseValue]
    ) throws -> Record {
        var columns = generated
        for (columnIndex, value) in values.enumerated() where value != nil {
            columns[table.columns[columnIndex].name] = value?.databaseValue
        }
        return try Record(row: Row(columns))
    }
}
