package import AnnalsCore
package import AnnalsHistory
import AnnalsMerge
package import AnnalsSchema
package import AnnalsSQLite
import AnnalsWire
package import GRDB

/// The state of one merge inside one SQLite write transaction: the tables in use, the history it writes, and the checks
/// before COMMIT.
///
/// The connection's triggers and foreign keys are off during the session (see `MergeConnection`).
package final class MergeSession {
    package let db: Database
    /// When the author of the entry that is applied wrote its changes.
    package let author = AuthorsTime()
    package private(set) var registry: TrackedTables
    private var tables: [String: RowTable] = [:]
    private var probes: [String: PreparedStatement] = [:]
    /// The deferred cells; nil if the store has the whole schema of the space.
    package var kept: DeferredCells? {
        didSet { space = nil }
    }
    /// Tables of this store have constraints that the space does not have yet.
    package var hasMoreConstraints = false
    /// The space's schema, loaded at first use.
    private var space: SpaceSchema??
    package private(set) var highestKeys: [String: Int64] = [:]
    package private(set) lazy var checks = ReferenceChecks(session: self)
    package private(set) lazy var untrackedChildren = UntrackedChildren(session: self)

    package init(_ db: Database, registry: TrackedTables) {
        self.db = db
        self.registry = registry
    }

    // MARK: Tables

    /// Reads the references that the schema does not declare again. To be called before any row is changed: tables that were used
    /// before are forgotten.
    package func takeReferences() throws {
        let settings = try ReferenceTable.load(db)
        guard settings != registry.undeclared else { return }
        registry = registry.with(undeclared: settings)
        tables.removeAll()
        probes.removeAll()
        checks.reset()
    }

    package func table(named name: String) throws -> RowTable {
        let folded = name.foldedIdentifier
        if let table = tables[folded] { return table }
        guard let entry = registry.table(named: name) else { throw MergeError.unknownTable(name) }
        let children = registry.references(to: name)
        let untracked = registry.untrackedReferences(to: name)
        let isReferenced = !children.isEmpty || !untracked.isEmpty
        let mergeTable = MergeTable(entry, children: children.map(\.reference), isReferenced: isReferenced, registry)
        let referenced = children.map(\.reference.parentColumns) + untracked.map(\.parentColumns)
        let referencedColumnIndexes = Set(referenced.joined().compactMap(entry.definition.columnIndex(of:)))
        let table = try RowTable(db, entry, mergeTable, referencedColumnIndexes: referencedColumnIndexes, author: author)
        tables[folded] = table
        return table
    }

    /// The table with this canonical name.
    package func table(first name: String) throws -> RowTable {
        guard let entry = registry.table(first: name) else { throw MergeError.unknownTable(name) }
        return try table(named: entry.definition.name)
    }

    /// The table with this canonical name as the space declares it; nil if this store has no record of the space's schema.
    package func spaceTable(_ name: String) throws -> DeclaredTable? {
        if space == nil { space = .some(try SpaceSchema.load(db)) }
        return space??.table(named: name)
    }

    /// Whether changes of the table with this canonical name concern no table of this store: the space has removed the table, or this
    /// store has.
    package func ignores(_ name: String) throws -> Bool {
        guard registry.table(first: name) == nil, !(kept?.missingSchema.has(table: name) ?? false) else { return false }
        return try spaceTable(name) != nil || space??.isRemoved(name) ?? false
    }

    /// Maps the columns of an author's layout, in canonical names, to the local column indexes.
    ///
    /// Cells of a column that this store or the space has removed are left out.
    ///
    /// - Throws: `MergeError.unknownColumn` for a column that the store never had and whose cells it does not defer.
    package func layoutInUse(_ layout: TableLayout, in table: RowTable) throws -> LayoutInUse {
        let columnIndexes = try layout.columns.map { column in
            let columnIndex = table.first.columnIndex(of: column)
            guard try columnIndex != nil || kept?.missingSchema.has(column, of: layout.name) ?? false || wasKnown(column, of: layout.name)
            else {
                throw MergeError.unknownColumn(table: layout.name, column: column)
            }
            return columnIndex
        }
        let missing = try table.definition.columns.indices.filter { !columnIndexes.contains($0) }
            .map { (columnIndex: $0, value: try addedValue(of: $0, in: table)) }
        return LayoutInUse(all: columnIndexes, missing: missing, leftover: try leftover(in: table))
    }

    /// Whether the space has or had the column. This store removed it.
    private func wasKnown(_ column: String, of table: String) throws -> Bool {
        try spaceTable(table)?.columnIndex(of: column) != nil || space??.isRemoved(column, of: table) ?? false
    }

    /// The indexes of columns that the space has removed and this store still has.
    package func leftover(in table: RowTable) throws -> Set<Int> {
        let name = table.first.name
        // The first version of a schema has no removed columns.
        guard try SpaceSchema.version(db) > 1, try spaceTable(name) != nil, let space = space ?? nil, space.removed != nil else {
            return []
        }
        return Set(table.first.columns.indices.filter { space.isRemoved(table.first.columns[$0].name, of: name) })
    }

    /// The value of rows that are older than a column: that with which the column came to the space, or else the default of this store.
    package func addedValue(of columnIndex: Int, in table: RowTable) throws -> Value {
        let own = table.definition.columns[columnIndex]
        let name = table.first.columns[columnIndex].name
        guard let known = try spaceTable(table.first.name) else { return try AddedColumn.value(of: own) }
        if let theirs = known.columnIndex(of: name), space??.isAdded(name, of: known.name) ?? false {
            return try AddedColumn.value(of: known.columns[theirs])
        }
        // If the space has removed the column, an author without it writes no value.
        var column = own
        if own.isNotNull, own.addedSQL == nil { column.fillSQL = FilledColumns.emptyValue(of: own) }
        return try AddedColumn.value(of: column)
    }

    /// To be called after the space's schema was changed.
    package func forgetSpace() {
        space = nil
        if hasMoreConstraints { tables.values.forEach { $0.forgetHasher() } }
    }

    /// For each unique index of a table, whether every author of the space must follow it; nil if all of them.
    package func requiredUniques(of table: RowTable) throws -> [Bool]? {
        guard hasMoreConstraints, let known = try spaceTable(table.first.name) else { return nil }
        return SchemaAgreement.uniques(table.first, in: known)
    }

    // MARK: History

    /// The last history ids of all tables. `spans(since:)` returns what was logged after them.
    package func historyMark() -> [Int64: Int64] {
        Dictionary(uniqueKeysWithValues: tables.values.map { ($0.layoutID, $0.lastHistoryID) })
    }

    /// The spans logged after `mark`, by layout id.
    package func spans(since mark: [Int64: Int64]) -> [TransactionRecorder.Span] {
        tables.values.compactMap { table in
            let before = mark[table.layoutID] ?? table.firstHistoryID
            guard table.lastHistoryID > before else { return nil }
            return TransactionRecorder.Span(table: table.layoutID, ids: (before + 1)...table.lastHistoryID)
        }
        .sorted { $0.table < $1.table }
    }

    /// To be called after a savepoint was rolled back. Forgets the history logged after `mark`.
    package func rewindHistory(to mark: [Int64: Int64]) {
        for table in tables.values { table.rewindHistory(to: mark[table.layoutID] ?? table.firstHistoryID) }
    }

    /// The position of each table in an order with parents before their children. A cycle of references has no such order.
    package var tableOrder: [String: Int] { registry.order }

    // MARK: Highest integer keys

    package func noteHighestKey(_ table: RowTable, _ row: [Value]) {
        guard let columnIndex = table.definition.rowidAlias, let key = row[columnIndex].integer else { return }
        highestKeys[table.first.name] = max(highestKeys[table.first.name] ?? .min, key)
    }

    // MARK: References

    package func parentExists(_ table: RowTable, _ key: ParentReference, _ row: [Value]) throws -> Bool {
        if key.columnIndexes.contains(where: { row[$0].isNull }) { return true }
        if let condition = key.condition, !condition.holds(row) { return true }
        let conditions = key.parentColumns.enumerated().map { "\(SQL.quote($1)) = ?\($0 + 1)" }.joined(separator: " AND ")
        let statement = try prepared("SELECT 1 FROM \(SQL.quote(key.parentTable)) WHERE \(conditions)")
        for (index, columnIndex) in key.columnIndexes.enumerated() { statement.bind(index + 1, row[columnIndex]) }
        defer { statement.reset() }
        return try statement.step()
    }

    /// Tables with a foreign key to `parent`, each with the index of that foreign key.
    package func children(of parent: String) -> [(table: RowTable, foreignKey: Int)] {
        registry.references(to: parent).compactMap { child in
            (try? table(named: child.table)).map { ($0, child.number) }
        }
    }

    /// Keys of rows that reference the old tuple of `parentRow`, if no other row has this tuple now.
    func orphans(_ child: RowTable, _ key: ParentReference, of parentRow: [Value], in parent: String) throws -> [[Value]] {
        try children(child, key, of: parentRow, in: parent, onlyOrphans: true)
    }

    /// Keys of rows that reference the old tuple of `parentRow`, whichever row has this tuple now.
    package func children(
        _ child: RowTable, _ key: ParentReference, of parentRow: [Value], in parent: String, onlyOrphans: Bool = false
    ) throws -> [[Value]] {
        let parentTable = try table(named: parent)
        let tuple = key.parentColumns.map { column in parentTable.definition.columnIndex(of: column).map { parentRow[$0] } ?? .null }
        if tuple.contains(where: \.isNull) { return [] }
        // SQLite compares the child's value as the parent's column does. So the parent's column is the left operand, with the
        // tuple as its value: `'7'` refers to 7, and under RTRIM 'a ' refers to 'a'.
        let parentColumns = key.parentColumns.map(SQL.quote)
        let bound = parentColumns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        let list = parentColumns.joined(separator: ", ")
        let gone = "(SELECT \(list) FROM \(SQL.quote(key.parentTable)) WHERE 0 UNION ALL SELECT \(bound) LIMIT 1) AS gone"
        let conditions = zip(parentColumns, key.columnIndexes).map { "gone.\($0) = c.\(SQL.quote(child.definition.columns[$1].name))" }
        let query = childQuery(child, key, from: "\(gone), ", where: conditions.joined(separator: " AND "), onlyOrphans: onlyOrphans)
        let statement = try prepared(query)
        for (index, value) in tuple.enumerated() { statement.bind(index + 1, value) }
        return try keys(statement, child, key)
    }

    /// Keys of all rows of a child table with a reference that has no parent.
    func orphans(_ child: RowTable, _ key: ParentReference) throws -> [[Value]] {
        let present = key.columnIndexes.map { "c.\(SQL.quote(child.definition.columns[$0].name)) IS NOT NULL" }.joined(separator: " AND ")
        let query = childQuery(child, key, from: "", where: present, onlyOrphans: true)
        return try keys(prepared(query), child, key)
    }

    private func childQuery(
        _ child: RowTable, _ key: ParentReference, from source: String, where condition: String, onlyOrphans: Bool
    ) -> String {
        // A condition is tested on its columns in Swift, and never as SQL.
        let selected = child.definition.primaryKey + (key.condition?.columnIndexes ?? [])
        let keyColumns = selected.map { "c.\(SQL.quote(child.definition.columns[$0].name))" }
        let match = zip(key.columnIndexes, key.parentColumns).map { columnIndex, column in
            "p.\(SQL.quote(column)) = c.\(SQL.quote(child.definition.columns[columnIndex].name))"
        }
        let orphaned = "AND NOT EXISTS (SELECT 1 FROM \(SQL.quote(key.parentTable)) AS p WHERE \(match.joined(separator: " AND ")))"
        return """
            SELECT \(keyColumns.joined(separator: ", ")) FROM \(source)\(SQL.quote(child.name)) AS c
            WHERE \(condition) \(onlyOrphans ? orphaned : "")
            """
    }

    /// The keys in the first columns of a query, of the rows for which the condition of the reference holds.
    private func keys(_ statement: PreparedStatement, _ child: RowTable, _ reference: ParentReference) throws -> [[Value]] {
        let count = child.definition.primaryKey.count
        var keys: [[Value]] = []
        var row = reference.condition == nil ? [] : [Value](repeating: .null, count: child.columnCount)
        defer { statement.reset() }
        while try statement.step() {
            if let condition = reference.condition {
                for (offset, columnIndex) in condition.columnIndexes.enumerated() { row[columnIndex] = statement.value(count + offset) }
                guard condition.holds(row) else { continue }
            }
            keys.append(statement.values(0..<count))
        }
        return keys
    }

    /// A prepared statement, cached for the session.
    package func prepared(_ sql: String) throws -> PreparedStatement {
        if let statement = probes[sql] { return statement }
        let statement = try PreparedStatement(db, sql)
        probes[sql] = statement
        return statement
    }
}
