package import AnnalsCore
import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// A row of a copy that differs from history.
package struct CopyMismatch: Error {
    package enum Kind {
        case missing
        case otherValue(column: String)
        /// Another row has its key or a unique value.
        case taken
        /// The table's declaration does not allow the row. The text is SQLite's message.
        case notAllowed(String)
    }

    package var table: String
    package var kind: Kind

    package init(table: String, kind: Kind) {
        self.table = table
        self.kind = kind
    }

    package var message: String {
        switch kind {
        case .missing: "a row of \(table) is missing"
        case .otherValue(let column): "a row of \(table) has another value in \(column)"
        case .taken: "a row of \(table) cannot be written: another row has its key or a unique value"
        case .notAllowed(let reason): "a row of \(table) does not fit the current declaration of the table: \(reason)"
        }
    }
}

/// One table of a copy. Its rows are changed from one state to another, and each row is compared before it is changed.
///
/// A row is found by its key. A row with NULL in its key is found by all its values, since VACUUM may give it another rowid.
package final class CopiedTable {
    package let definition: DeclaredTable
    private let db: Database
    private let name: String
    private let columns: [String]
    /// Columns of the table's own UNIQUE and PRIMARY KEY constraints. Other unique indexes are created later.
    private let uniqueColumnIndexes: [Int]
    private let otherColumnIndexes: [Int]
    /// Values of removed rows that history leaves out, by the key with which the row is written again.
    private var withheld: [[Value]: [(columnIndex: Int, value: Value)]] = [:]
    /// Statements that update only some columns, by their column numbers.
    private var partialUpdates: [[Int]: PreparedStatement] = [:]

    package init(_ db: Database, schema: String, definition: DeclaredTable) {
        self.db = db
        self.definition = definition
        name = "\(schema).\(SQL.quote(definition.name))"
        columns = definition.columns.map { SQL.quote($0.name) }
        var unique = Set(definition.primaryKey)
        for index in definition.uniqueIndexes where index.isConstraint { unique.formUnion(index.columnIndexes ?? Array(columns.indices)) }
        uniqueColumnIndexes = unique.sorted()
        otherColumnIndexes = columns.indices.filter { !unique.contains($0) }
    }

    // MARK: One pass

    /// Does all of a step, if no other row is in the way. Returns false, and does nothing, if the row moves, or if another row has its key or
    /// a unique value: that row may be one that a later step removes.
    package func takeAtOnce(_ step: HistoryCopy.Step, _ mismatch: (CopyMismatch) throws -> Void) throws -> Bool {
        switch (step.from, step.to) {
        case (let from?, nil): try remove(from, leftOut: step.leftOut, mismatch)
        case (let from?, let to?):
            guard !isMoved(from, to) else { return false }
            try update(from, to, leftOut: step.leftOut, mismatch)
        case (nil, let to?):
            var isFree = true
            try insert(to) { found in
                if case .taken = found.kind { isFree = false } else { try mismatch(found) }
            }
            return isFree
        case (nil, nil): break
        }
        return true
    }

    // MARK: Two passes

    /// The first pass: removes a row that is deleted or that changes a unique value.
    package func takeOut(_ step: HistoryCopy.Step, _ mismatch: (CopyMismatch) throws -> Void) throws {
        guard let from = step.from, step.to.map({ isMoved(from, $0) }) ?? true else { return }
        if let to = step.to, !step.leftOut.isEmpty, let row = try row(key(of: from)) {
            withheld[key(of: to)] = step.leftOut.map { ($0, row[$0]) }
        }
        try remove(from, leftOut: step.leftOut, mismatch)
    }

    /// The second pass: writes the row.
    package func put(_ step: HistoryCopy.Step, _ mismatch: (CopyMismatch) throws -> Void) throws {
        guard var to = step.to else { return }
        if let from = step.from, !isMoved(from, to) { return try update(from, to, leftOut: step.leftOut, mismatch) }
        if !step.leftOut.isEmpty {
            for (columnIndex, value) in withheld.removeValue(forKey: key(of: to)) ?? [] { to[columnIndex] = value }
        }
        try insert(to, mismatch)
    }

    private func key(of row: [Value]) -> [Value] { definition.primaryKey.map { row[$0] } }

    private func isMoved(_ from: [Value], _ to: [Value]) -> Bool {
        hasNullKey(from) || hasNullKey(to) || uniqueColumnIndexes.contains { from[$0] != to[$0] }
    }

    func hasNullKey(_ row: [Value]) -> Bool {
        definition.primaryKey.contains { row[$0].isNull }
    }

    // MARK: Rows

    package func row(_ key: [Value]) throws -> [Value]? {
        try selectStatement.get().row(for: key, columns: columns.count)
    }

    private func remove(_ row: [Value], leftOut: [Int], _ mismatch: (CopyMismatch) throws -> Void) throws {
        if hasNullKey(row) {
            guard let rowid = try rowidOfKeyless(row) else { return try mismatch(CopyMismatch(table: definition.name, kind: .missing)) }
            let statement = try deleteKeylessStatement.get()
            statement.bind(1, rowid)
            return try statement.run()
        }
        guard try compare(row, leftOut: leftOut, mismatch) else { return }
        let statement = try deleteStatement.get()
        bindKey(statement, row)
        try statement.run()
    }

    private func insert(_ row: [Value], _ mismatch: (CopyMismatch) throws -> Void) throws {
        let statement = try insertStatement.get()
        statement.bind(row)
        try write(statement, mismatch)
    }

    private func write(_ statement: PreparedStatement, _ mismatch: (CopyMismatch) throws -> Void) throws {
        do {
            try statement.run()
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            let codes: [ResultCode] = [.SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID, .SQLITE_CONSTRAINT_UNIQUE]
            let isTaken = codes.contains(error.extendedResultCode)
            let kind = isTaken ? CopyMismatch.Kind.taken : .notAllowed(error.message ?? "SQLite refuses it")
            try mismatch(CopyMismatch(table: definition.name, kind: kind))
        }
    }

    private func update(_ from: [Value], _ to: [Value], leftOut: [Int], _ mismatch: (CopyMismatch) throws -> Void) throws {
        let columnIndexes = leftOut.isEmpty ? otherColumnIndexes : otherColumnIndexes.filter { !leftOut.contains($0) }
        guard try compare(from, leftOut: leftOut, mismatch), !columnIndexes.isEmpty else { return }
        let statement = try leftOut.isEmpty ? updateStatement.get() : partialUpdate(of: columnIndexes)
        bindKey(statement, from)
        for (index, columnIndex) in columnIndexes.enumerated() { statement.bind(definition.primaryKey.count + index + 1, to[columnIndex]) }
        try write(statement, mismatch)
    }

    private func partialUpdate(of columnIndexes: [Int]) throws -> PreparedStatement {
        if let known = partialUpdates[columnIndexes] { return known }
        let statement = try PreparedStatement(db, updateSQL(columnIndexes))
        partialUpdates[columnIndexes] = statement
        return statement
    }

    /// Whether a row with this key exists. A row with other values is reported and counts as existing.
    private func compare(_ row: [Value], leftOut: [Int], _ mismatch: (CopyMismatch) throws -> Void) throws -> Bool {
        let statement = try selectStatement.get()
        bindKey(statement, row)
        defer { statement.reset() }
        guard try statement.step() else {
            try mismatch(CopyMismatch(table: definition.name, kind: .missing))
            return false
        }
        if let columnIndex = row.indices.first(where: { !statement.column($0, equals: row[$0]) && !leftOut.contains($0) }) {
            try mismatch(CopyMismatch(table: definition.name, kind: .otherValue(column: definition.columns[columnIndex].name)))
        }
        return true
    }

    private func rowidOfKeyless(_ row: [Value]) throws -> Int64? {
        let statement = try selectKeylessStatement.get()
        bindKey(statement, row)
        defer { statement.reset() }
        while try statement.step() {
            if row.indices.allSatisfy({ statement.column($0 + 1, equals: row[$0]) }) { return statement.integer(0) }
        }
        return nil
    }

    private func bindKey(_ statement: PreparedStatement, _ row: [Value]) {
        for (index, columnIndex) in definition.primaryKey.enumerated() { statement.bind(index + 1, row[columnIndex]) }
    }

    // MARK: Statements, made when first needed

    private lazy var selectStatement = Result { try PreparedStatement(db, definition.lookup(in: name)) }
    private lazy var deleteStatement = Result { try PreparedStatement(db, "DELETE FROM \(name) WHERE \(definition.keyCondition())") }
    private lazy var insertStatement = Result {
        // OR ABORT overrides the ON CONFLICT clauses of the table, which could skip or replace rows silently.
        let placeholders = columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        return try PreparedStatement(db, "INSERT OR ABORT INTO \(name) (\(columns.joined(separator: ", "))) VALUES (\(placeholders))")
    }
    private lazy var updateStatement = Result { try PreparedStatement(db, updateSQL(otherColumnIndexes)) }

    private func updateSQL(_ columnIndexes: [Int]) -> String {
        let sets = columnIndexes.enumerated().map { "\(columns[$1]) = ?\(definition.primaryKey.count + $0 + 1)" }
        return "UPDATE OR ABORT \(name) SET \(sets.joined(separator: ", ")) WHERE \(definition.keyCondition())"
    }
    private lazy var selectKeylessStatement = Result {
        try PreparedStatement(db, definition.lookup(in: name, selecting: [rowid.get()] + columns, "IS"))
    }
    private lazy var deleteKeylessStatement = Result { try PreparedStatement(db, "DELETE FROM \(name) WHERE \(rowid.get()) = ?1") }

    private lazy var rowid = Result {
        guard let name = definition.rowidName else { throw Corruption(definition.name) }
        return SQL.quote(name)
    }
}
