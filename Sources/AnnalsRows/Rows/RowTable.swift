package import AnnalsCore
package import AnnalsHistory
package import AnnalsMerge
package import AnnalsSchema
package import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// One tracked table in a merge session: prepared statements for its rows, and the history of its changes.
///
/// The capture triggers are off during the session, so this type logs the changes.
package final class RowTable {
    package let layoutID: Int64
    package let definition: DeclaredTable
    /// The same declaration under canonical names.
    package let first: DeclaredTable
    package let rules: FootprintRules
    private let requiredRules: FootprintRules
    package let references: [ParentReference]
    /// Columns of the primary key or a UNIQUE index. A row that changes one of them is removed first and then restored.
    package let uniqueColumnIndexes: Set<Int>
    /// Columns that are part of a reference to a parent, or of its condition.
    package let referenceColumnIndexes: Set<Int>
    /// For each column, whether it is one of these or part of the primary key.
    package let isNaming: [Bool]
    /// The table as the merge rules see it, with the candidate keys of its rows.
    package let mergeTable: MergeTable
    /// Whether a foreign key of another table refers to this table. `referencedColumnIndexes` are the columns that it
    /// refers to.
    package let isReferenced: Bool
    let referencedColumnIndexes: Set<Int>
    private var nameStatements: [NameIndex: PreparedStatement] = [:]

    /// The cached statement that finds a row by a candidate key of this index.
    package func statement(for index: NameIndex, _ make: () throws -> PreparedStatement) rethrows -> PreparedStatement {
        if let statement = nameStatements[index] { return statement }
        let statement = try make()
        nameStatements[index] = statement
        return statement
    }

    /// The hasher for the rules that every author must follow. The last one is cached.
    ///
    /// - Parameter uniques: For each unique index, whether these rules contain it; nil if they contain all.
    package func hasher(_ key: FootprintKey, uniques: () throws -> [Bool]? = { nil }) rethrows -> TableHasher {
        if let lastHasher, lastHasher.key == key { return lastHasher }
        var rules = requiredRules
        if let required = try uniques() { rules.uniques = zip(rules.uniques, required).filter(\.1).map(\.0) }
        let hasher = TableHasher(rules, key)
        lastHasher = hasher
        return hasher
    }
    private var lastHasher: TableHasher?

    func forgetHasher() { lastHasher = nil }

    private let db: Database
    private let history: HistoryWriter
    private let quotedName: String
    private let columns: [String]
    /// `OR ABORT ` if the table's declaration has an ON CONFLICT clause, which could skip or replace rows silently. Other
    /// tables get no OR clause, because it would also override the clauses in the user's triggers.
    private let abort: String
    /// A row keeps its hidden rowid when it is removed and restored, because an index outside the table may use the rowid.
    private let hiddenRowid: String?
    private let keyCondition: String

    /// - Parameter referencedColumnIndexes: the columns to which foreign keys refer, also those of untracked tables.
    package init(
        _ db: Database, _ entry: TrackedTables.Entry, _ mergeTable: MergeTable, referencedColumnIndexes: Set<Int>, author: AuthorsTime
    ) throws {
        let definition = entry.definition
        self.db = db
        self.layoutID = entry.id
        self.definition = definition
        self.first = entry.first
        self.rules = entry.rules
        self.requiredRules = entry.requiredRules
        self.references = entry.references
        self.history = try HistoryWriter(db, definition, layoutID: entry.id, author: author)
        self.quotedName = SQL.quote(definition.name)
        let quoted = definition.columns.map { SQL.quote($0.name) }
        self.columns = quoted
        self.abort = try Self.abortClause(db, definition.name)
        self.hiddenRowid = definition.rowidAlias == nil ? definition.rowidName.map(SQL.quote) : nil
        self.keyCondition = definition.keyCondition()
        self.mergeTable = mergeTable
        self.isReferenced = mergeTable.isReferenced
        self.referencedColumnIndexes = referencedColumnIndexes
        self.uniqueColumnIndexes = mergeTable.uniqueColumns
        self.referenceColumnIndexes = mergeTable.referenceColumns
        let naming = referenceColumnIndexes.union(definition.primaryKey)
        self.isNaming = definition.columns.indices.map(naming.contains)
        self.firstHistoryID = history.lastID
    }

    /// `OR ABORT ` if the table's declaration may have an ON CONFLICT clause, else an empty string.
    static func abortClause(_ db: Database, _ table: String) throws -> String {
        let sql = try String.fetchOne(
            db, sql: "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", arguments: [table])
        return sql?.uppercased().contains("CONFLICT") == true ? "OR ABORT " : ""
    }

    let firstHistoryID: Int64

    package var name: String { definition.name }
    package var columnCount: Int { columns.count }
    package var hasReferences: Bool { !referenceColumnIndexes.isEmpty }
    /// Beyond the primary key.
    package var hasUniqueColumns: Bool { !rules.uniques.isEmpty }
    var lastHistoryID: Int64 { history.lastID }
    package func rewindHistory(to id: Int64) { history.lastID = id }

    // MARK: Statements, made when first needed

    private lazy var selectStatement = Result { try prepared(definition.lookup()) }
    private lazy var deleteStatement = Result { try prepared("DELETE FROM \(quotedName) WHERE \(keyCondition)") }
    private lazy var insertStatement = Result {
        let placeholders = (1...columns.count).map { "?\($0)" }.joined(separator: ", ")
        return try prepared("INSERT \(abort)INTO \(quotedName) (\(columns.joined(separator: ", "))) VALUES (\(placeholders))")
    }
    /// Finds the hidden rowid of a row by its key. nil if the table has no hidden rowid.
    private lazy var rowidStatement: Result<PreparedStatement, any Error>? = hiddenRowid.map { rowid in
        Result { try prepared(definition.lookup(selecting: [rowid])) }
    }
    private lazy var restoreStatement: Result<PreparedStatement, any Error>? = hiddenRowid.map { rowid in
        Result {
            let placeholders = (1...columns.count + 1).map { "?\($0)" }.joined(separator: ", ")
            return try prepared(
                "INSERT \(abort)INTO \(quotedName) (\(columns.joined(separator: ", ")), \(rowid)) VALUES (\(placeholders))")
        }
    }
    private var updateStatements: [[Int]: PreparedStatement] = [:]

    /// `UPDATE … SET` of some columns. The key is bound first, then the columns in their order.
    private func updateStatement(_ columnIndexes: [Int]) throws -> PreparedStatement {
        if let statement = updateStatements[columnIndexes] { return statement }
        let keyCount = definition.primaryKey.count
        let sets = columnIndexes.enumerated().map { "\(columns[$1]) = ?\(keyCount + $0 + 1)" }.joined(separator: ", ")
        let statement = try prepared("UPDATE \(abort)\(quotedName) SET \(sets) WHERE \(keyCondition)")
        if updateStatements.count >= ApplyLimits.updateStatementsPerTable { updateStatements.removeAll() }
        updateStatements[columnIndexes] = statement
        return statement
    }

    /// A compiled statement for the table's rows, with the triggers that it fires.
    private func prepared(_ sql: String) throws -> PreparedStatement {
        do {
            return try PreparedStatement(db, sql)
        } catch  where StoreError.isAboutMissingName(error) {
            throw try UnwritableTable.error(definition, db, error)
        }
    }

    // MARK: Whole rows as values

    package func key(of row: [Value]) -> [Value] {
        definition.primaryKey.map { row[$0] }
    }

    package func row(_ key: [Value]) throws -> [Value]? {
        try selectStatement.get().row(for: key, columns: columns.count)
    }

    package func insert(_ row: [Value]) throws {
        try put(row)
        try history.insert(row)
    }

    package func delete(_ row: [Value]) throws {
        _ = try remove(key(of: row))
        try history.delete(row)
    }

    /// Changes columns in place. Both rows must have the same key.
    package func update(_ old: [Value], to new: [Value]) throws {
        let changed = columns.indices.filter { old[$0] != new[$0] }
        guard !changed.isEmpty else { return }
        let statement = try updateStatement(changed)
        statement.bind(key(of: old))
        for (index, columnIndex) in changed.enumerated() { statement.bind(definition.primaryKey.count + index + 1, new[columnIndex]) }
        try statement.run()
        try history.update(old, to: new)
    }

    /// Removes a row without a history record. `restore` writes it again, with another key or other unique values.
    ///
    /// Returns the row's hidden rowid, which `restore` needs.
    package func remove(_ key: [Value]) throws -> Int64? {
        var rowid: Int64?
        if let statement = try rowidStatement?.get() {
            statement.bind(key)
            if try statement.step() { rowid = statement.integer(0) }
            statement.reset()
        }
        let statement = try deleteStatement.get()
        statement.bind(key)
        try statement.run()
        return rowid
    }

    /// Writes a row again that `remove` removed, and logs the change as an update.
    package func restore(_ old: [Value], as new: [Value], rowid: Int64?) throws {
        try put(new, rowid: rowid)
        guard old != new else { return }
        try history.update(old, to: new)
    }

    private func put(_ row: [Value], rowid: Int64? = nil) throws {
        if let rowid, let statement = try restoreStatement?.get() {
            statement.bind(row)
            statement.bind(row.count + 1, rowid)
            return try statement.run()
        }
        let statement = try insertStatement.get()
        statement.bind(row)
        try statement.run()
    }

    // MARK: Changes as bytes of a body

    /// Inserts a row from a body's bytes. `columnIndexes` maps the author's columns to this table's columns.
    ///
    /// - Parameter missing: The values of columns that the author did not have, with the indexes of these columns.
    package func insert(
        _ values: [WireValue], columnIndexes: [Int], in bytes: UnsafeRawBufferPointer, missing: [(columnIndex: Int, value: Value)] = []
    ) throws {
        let statement = try insertStatement.get()
        for (index, columnIndex) in columnIndexes.enumerated() { statement.bind(columnIndex + 1, lending: values[index], in: bytes) }
        for (columnIndex, value) in missing { statement.bind(columnIndex + 1, value) }
        try statement.run()
        try history.insert(values, columnIndexes: columnIndexes, in: bytes, missing: missing)
    }

    /// Finds the row with a key given in a body. The returned statement is on that row; nil if there is none.
    ///
    /// The caller resets the statement.
    package func find(_ key: [WireValue], in bytes: UnsafeRawBufferPointer) throws -> PreparedStatement? {
        let statement = try selectStatement.get()
        for (index, value) in key.enumerated() { statement.bind(index + 1, value, in: bytes) }
        if try statement.step() { return statement }
        statement.reset()
        return nil
    }

    /// Updates in place the row that `found` is on.
    package func update(
        _ found: PreparedStatement, key: [WireValue], columnIndexes: [Int], new: [WireValue], in bytes: UnsafeRawBufferPointer
    ) throws {
        try history.update(found, columnIndexes: columnIndexes, new: new, in: bytes)
        found.reset()
        let statement = try updateStatement(columnIndexes)
        for (index, value) in key.enumerated() { statement.bind(index + 1, value, in: bytes) }
        for (index, value) in new.enumerated() { statement.bind(key.count + index + 1, lending: value, in: bytes) }
        try statement.run()
    }

    /// Deletes the row that `found` is on.
    package func delete(_ found: PreparedStatement, key: [WireValue], in bytes: UnsafeRawBufferPointer) throws {
        try history.delete(found)
        found.reset()
        let statement = try deleteStatement.get()
        for (index, value) in key.enumerated() { statement.bind(index + 1, value, in: bytes) }
        try statement.run()
    }
}

extension DeclaredTable {
    /// Columns of the primary key or a UNIQUE index.
    package func uniqueColumnIndexes(_ rules: FootprintRules) -> Set<Int> {
        var unique = Set(primaryKey)
        for index in rules.uniques {
            unique.formUnion(index.isCoarse ? index.coarseColumns ?? Array(columns.indices) : index.columnIndexes)
        }
        return unique
    }
}

/// This program does not have a function, a collation or a module that writes to a table need. The entry with the rows is correct, so it
/// is not reported to the relay.
package struct UnwritableTable: Error {
    fileprivate static func error(_ table: DeclaredTable, _ db: Database, _ error: any Error) throws -> AnnalsError {
        let uses = try UnusableTable.missing(for: table, db).map(\.message).joined(separator: ", ")
        let reason = uses.isEmpty ? (error as? DatabaseError)?.message ?? "SQLite refused it" : "\(uses), which this program does not have"
        return AnnalsError(
            .schemaRefused, operation: "apply", "rows of the table \(table.name) cannot be written here: \(reason)",
            hint: "Nothing was changed. Add it to the connections in Store.Configuration.prepareDatabase",
            commandHint: "Nothing was changed. Load the extension that has it with --load-extension", underlying: UnwritableTable())
    }
}
