import AnnalsCore
import AnnalsSQLite

/// A primary key, a unique index or the rowid, as a condition in a trigger: which rows of the table conflict with NEW?
///
/// A program can give the rowid of a table whose key is another column (`INSERT OR REPLACE INTO t(rowid, k) VALUES(7, 'new')`). A
/// BEFORE INSERT trigger has -1 as the rowid if the program gave none.
///
/// For a partial index, the WHERE clause is tested on the table's rows only. If NEW is outside the index, the trigger notes a row
/// that it need not note, which is harmless.
///
/// The index's expressions cannot be applied to NEW directly, because a trigger's NEW columns have no affinity. With an INTEGER
/// column `a`, `a = '1'` is true in the table and false for NEW.a. So NEW goes through a subquery that begins with the table
/// itself, which gives its columns the affinities and collations of the table. The LIMIT prevents SQLite from flattening the
/// subquery.
///
/// NEW can also differ from the stored row. If NULL is not allowed, a REPLACE stores the default, and it does so after the BEFORE
/// triggers.
package struct ConflictTarget: Hashable {
    private var terms: [Term]
    /// The WHERE clause of a partial index.
    private var filter: String?
    /// Indices of the columns in which a change can cause a conflict; nil for all columns.
    package private(set) var columnsConcerned: [Int]?

    private enum Term: Hashable {
        case column(DeclaredTable.IndexColumn)
        /// SQL over the table's columns by name. `computed` uses only stored and VIRTUAL columns, because a STORED generated column
        /// is NULL in a BEFORE UPDATE trigger.
        case expression(stored: String, computed: String, collation: String)
        case rowid(String)
    }

    /// For plain columns, such as those of a primary key.
    package init(columns: [DeclaredTable.IndexColumn]) {
        terms = columns.map(Term.column)
        columnsConcerned = columns.compactMap(\.columnIndex)
    }

    /// The rowid under a name that no column has.
    package init(rowid name: String) {
        terms = [.rowid(name)]
        columnsConcerned = []
    }

    package init(_ index: DeclaredTable.UniqueIndex, of table: DeclaredTable) {
        let text = index.sql.map { SQLText($0) }
        let parts = text?.indexExpressions ?? []
        filter = text?.indexCondition
        terms = []
        var concerned: [Int]? = []
        for (number, column) in index.columns.enumerated() {
            if let columnIndex = column.columnIndex {
                terms.append(.column(column))
                concerned?.append(columnIndex)
            } else if let name = column.name {
                let computed = table.generationExpression(of: name) ?? SQL.quote(name)
                terms.append(.expression(stored: SQL.quote(name), computed: computed, collation: column.collation))
                concerned = concerned.flatMap { known in table.columnIndexes(in: SQL.quote(name)).map { known + $0 } }
            } else {
                let sql = number < parts.count ? "(\(parts[number]))" : "NULL"
                terms.append(.expression(stored: sql, computed: sql, collation: column.collation))
                concerned = concerned.flatMap { known in table.columnIndexes(in: sql).map { known + $0 } }
            }
        }
        if let filter { concerned = concerned.flatMap { known in table.columnIndexes(in: filter).map { known + $0 } } }
        columnsConcerned = concerned
    }

    /// Whether the condition may need a collation or a function that only some programs have. This depends on the text only, because the
    /// triggers must be the same whichever program creates them. So every function counts.
    package var mayNeedProgram: Bool {
        func isOwn(_ sql: String) -> Bool {
            let tokens = SQLToken.all(in: sql)
            return !tokens.calledFunctions.isEmpty || !tokens.collations.allSatisfy(Collation.isBuiltIn)
        }
        let isOwnTerm = terms.contains { term in
            switch term {
            case .rowid: false
            case .column(let column): !Collation.isBuiltIn(column.collation)
            case .expression(let stored, let computed, let collation):
                !Collation.isBuiltIn(collation) || isOwn(stored) || isOwn(computed)
            }
        }
        return isOwnTerm || (filter.map(isOwn) ?? false)
    }

    /// The condition that is true if a row of the table conflicts with NEW.
    package func isMet(on table: DeclaredTable, as row: String) -> String {
        // SQLite looks up a rowid in this shorter form, too. It would copy the table to look up another key.
        if terms.count == 1, case .column(let column) = terms[0], filter == nil, let name = column.name, !name.contains("]"),
            let index = column.columnIndex, index == table.rowidAlias
        {
            return "NEW.\(SQL.quote(name)) IN (SELECT \(Self.nameOfOnlySource(name, row)) FROM \(SQL.quote(table.name)))"
        }
        let exists = "EXISTS(SELECT 1 FROM \(SQL.quote(table.name)) AS \(row) WHERE \(condition(on: table, as: row)))"
        guard case .rowid(let name)? = terms.first else { return exists }
        return "(NEW.\(name) <> -1 AND \(exists))"
    }

    package var isRowid: Bool {
        if case .rowid? = terms.first { true } else { false }
    }

    /// A column in a statement with one table, named `row`. Without the table's name SQLite parses it in a third of the time. SQLite takes an
    /// unknown name in double quotes for a text, but not one in brackets.
    package static func nameOfOnlySource(_ column: String, _ row: String) -> String {
        column.contains("]") ? "\(row).\(SQL.quote(column))" : "[\(column)]"
    }

    /// The condition that is true for rows of the table, named `row`, that conflict with NEW. NULL conflicts with nothing.
    package func condition(on table: DeclaredTable, as row: String) -> String {
        let virtual = table.generatedColumns.filter { $0.kind == .virtual }.map { SQL.quote($0.name) }
        let stored = (table.columns.map { SQL.quote($0.name) } + virtual).map { "\($0) AS \($0)" }.joined(separator: ", ")
        let new = (table.columns.map(\.newValue) + virtual.map { "NEW.\($0)" }).joined(separator: ", ")
        let source = "(SELECT \(stored) FROM \(SQL.quote(table.name)) WHERE 0 UNION ALL SELECT \(new) LIMIT 1) AS \(row)"
        var conditions = terms.map { term in
            switch term {
            case .rowid(let name): return "\(row).\(name) = NEW.\(name)"
            case .column(let column):
                let name = column.name ?? ""
                let own = column.columnIndex.map { table.columns[$0].collation }
                // The column's collation applies by default. An index with another collation needs COLLATE.
                let collate = own == column.collation ? "" : " COLLATE \(SQL.quote(column.collation))"
                let new = column.columnIndex.map { table.columns[$0].newValue } ?? "NEW.\(SQL.quote(name))"
                return "\(Self.nameOfOnlySource(name, row)) = \(new)\(collate)"
            case .expression(let stored, let computed, let collation):
                return "\(stored) = (SELECT \(computed) FROM \(source)) COLLATE \(SQL.quote(collation))"
            }
        }
        if let filter { conditions.append("(\(filter))") }
        return conditions.joined(separator: " AND ")
    }
}

extension DeclaredTable {
    /// Indices of the stored columns on which an expression depends, directly or through generated columns. nil if the expression
    /// of a generated column could not be parsed.
    fileprivate func columnIndexes(in sql: String) -> [Int]? {
        var (columnIndexes, expressions, seen): (Set<Int>, [String], Set<String>) = ([], [sql], [])
        while let expression = expressions.popLast() {
            for name in SQLToken.all(in: expression).compactMap(\.identifier) where seen.insert(name.foldedIdentifier).inserted {
                if let columnIndex = columnIndex(of: name) { columnIndexes.insert(columnIndex) }
                guard let generated = generatedColumns.first(where: { $0.name.isSameIdentifier(as: name) }) else { continue }
                guard let sql = generated.expression else { return nil }
                expressions.append(sql)
            }
        }
        return columnIndexes.sorted()
    }

    /// The expression of a generated column, in parentheses.
    fileprivate func generationExpression(of name: String) -> String? {
        generatedColumns.first { $0.name.isSameIdentifier(as: name) }?.expression.map { "(\($0))" }
    }
}

extension DeclaredTable.Column {
    /// The column of NEW, or the value that a REPLACE stores there instead of NULL.
    fileprivate var newValue: String {
        let new = "NEW.\(SQL.quote(name))"
        return valueForNull.map { "coalesce(\(new), \($0))" } ?? new
    }

    /// The default of a NOT NULL column, as SQL that every program can run. nil if it calls functions, because a function may exist
    /// in one program only.
    private var valueForNull: String? {
        guard isNotNull, let defaultSQL else { return nil }
        let tokens = SQLToken.all(in: defaultSQL)
        // A single word is TRUE, CURRENT_TIME or the like.
        if tokens.count == 1, let name = tokens[0].identifier { return tokens[0].isWord("NULL") ? nil : name }
        return tokens.contains { $0.identifier != nil } ? nil : "(\(defaultSQL))"
    }
}
