import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
public import GRDB

/// A record that can be edited: read from rows, and written.
public typealias EditableRecord = FetchableRecord & MutablePersistableRecord & Sendable

/// One row in an edit context, its values by the places of the table's stored columns.
struct EditedRow: Sendable {
    var table: DeclaredTable
    /// As it was read; nil for a new row. A column is nil where the record did not say.
    var base: [Value?]?
    /// As it is to be; nil where it is to be deleted.
    var now: [Value?]?
    /// Generated columns as they were read, for records that read them.
    var generated: [String: DatabaseValue] = [:]
    /// The app's record of it, once it was edited.
    var record: (any EditableRecord)?
    /// It was read elsewhere, so `base` is what its record would write, and not what is stored.
    var isAdopted = false
    /// Its key stands for the one that SQLite will make.
    var hasProvisionalKey = false
    /// The number of the transaction of history up to which its keys are right.
    var asOf: Int64
    /// When it was edited first, among all; zero where it was not.
    var order = 0

    var isInserted: Bool { base == nil && now != nil }
    var isDeleted: Bool { base != nil && now == nil }
    /// Most rows were never touched, and need no comparison.
    var hasEdits: Bool { order != 0 && (isInserted || isDeleted || !changed.isEmpty) }

    /// Places whose values were edited; of new and deleted rows none.
    var changed: [Int] {
        guard let base, let now else { return [] }
        return base.indices.filter { now[$0] != base[$0] }
    }

    /// The row as a record of some type, with its edits.
    func decode<Record: FetchableRecord>(_ type: Record.Type) throws -> Record {
        try RecordCoding.decode(type, now ?? [], table, generated)
    }
}

/// Records as values by the places of stored columns, and back.
enum RecordCoding {
    /// What a record would write; nil in the place of a column that it leaves alone.
    static func encode(_ record: some EditableRecord, _ table: DeclaredTable) throws -> [Value?] {
        var values = [Value?](repeating: nil, count: table.columns.count)
        for (name, value) in try record.databaseDictionary {
            if let place = table.place(of: name) {
                values[place] = Value(value)
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
        for (place, value) in values.enumerated() where value != nil { columns[table.columns[place].name] = value?.databaseValue }
        return try Record(row: Row(columns))
    }
}
