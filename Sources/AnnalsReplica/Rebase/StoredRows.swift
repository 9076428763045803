import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// The store's rows as the planner reads them, in the write transaction of the rebase.
final class StoredRows: RowSource {
    private let session: MergeSession
    private var tables: [String: RowTable] = [:]
    /// By the identity of `RowTable.mergeTable`, which the session keeps.
    private var byMergeTable: [ObjectIdentifier: RowTable] = [:]

    init(_ session: MergeSession) {
        self.session = session
    }

    func rowTable(_ table: MergeTable) throws -> RowTable {
        try byMergeTable[ObjectIdentifier(table)] ?? session.table(named: table.name)
    }

    // MARK: RowSource

    func table(named name: String) throws -> MergeTable {
        // Asked for with every change, and a look-up in the session folds the name.
        if let table = tables[name] { return table.mergeTable }
        let table = try session.table(named: name)
        tables[name] = table
        byMergeTable[ObjectIdentifier(table.mergeTable)] = table
        return table.mergeTable
    }

    func table(canonicalName name: String) throws -> MergeTable {
        try session.table(first: name).mergeTable
    }

    func lacksColumns(of table: MergeTable) -> Bool {
        session.kept?.missingSchema.touches(table.canonicalName) ?? false
    }

    func row(withKey key: [Value], in table: MergeTable) throws -> [Value]? {
        try rowTable(table).row(key)
    }

    func row(named name: CandidateKey, in table: MergeTable) throws -> [Value]? {
        try session.row(named: name, in: rowTable(table))
    }

    func asStored(_ value: Value, in table: MergeTable, columnIndex: Int) throws -> Value {
        try session.asStored(value, in: rowTable(table).definition.columns[columnIndex])
    }

    func defaultValue(of columnIndex: Int, in table: MergeTable) throws -> Value {
        try session.defaultValue(of: rowTable(table).definition.columns[columnIndex])
    }
}
