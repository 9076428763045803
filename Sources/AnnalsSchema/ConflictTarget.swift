import AnnalsCore
import AnnalsSQLite

/// A primary key or unique index, as a trigger asks it: which rows of the table would keep NEW out?
///
/// The WHERE clause of a partial index is asked of the table's rows only. A row noted though NEW lies outside the index
/// does no harm.
///
/// NEW cannot be put through an index's expressions directly, because a trigger's NEW columns have no affinity: with an
/// INTEGER column `a`, `a = '1'` is true in the table and false for NEW.a. So NEW goes through a subquery that begins
/// with the table itself and takes the columns' affinities and collations from there; its LIMIT keeps SQLite from taking
/// the subquery apart again.
///
/// Nor is NEW always what will be stored: a REPLACE puts the default where NULL is not allowed, and does so after the BEFORE
/// triggers.
package struct ConflictTarget: Hashable {
    private var terms: [Term]
    /// The WHERE clause of a partial index.
    private var filter: String?
    /// Places of the columns whose change can bring about a conflict; nil for all of them.
    package private(set) var columnsConcerned: [Int]?

    private enum Term: Hashable {
        case column(DeclaredTable.IndexColumn)
        /// SQL over the table's columns by name. `computed` is over the stored and VIRTUAL columns only: a STORED
        /// generated column is NULL in a BEFORE UPDATE trigger.
        case expression(stored: String, computed: String, collation: String)
    }

    /// Of plain columns, such as a primary key's.
    package init(columns: [DeclaredTable.IndexColumn]) {
        terms = columns.map(Term.column)
        columnsConcerned = columns.compactMap(\.place)
    }

    package init(_ index: DeclaredTable.UniqueIndex, of table: DeclaredTable) {
        let text = index.sql.map { SQLText($0) }
        let parts = text?.indexExpressions ?? []
        filter = text?.indexCondition
        terms = []
        var concerned: [Int]? = []
        for (number, column) in index.columns.enumerated() {
            if let place = column.place {
                terms.append(.column(column))
                concerned?.append(place)
            } else if let name = column.name {
                let computed = table.generationExpression(of: name) ?? SQL.quote(name)
                terms.append(.expression(stored: SQL.quote(name), computed: computed, collation: column.collation))
                concerned = concerned.flatMap { known in table.places(in: SQL.quote(name)).map { known + $0 } }
            } else {
                let sql = number < parts.count ? "(\(parts[number]))" : "NULL"
                terms.append(.expression(stored: sql, computed: sql, collation: column.collation))
                concerned = concerned.flatMap { known in table.places(in: sql).map { known + $0 } }
            }
        }
        if let filter { concerned = concerned.flatMap { known in table.places(in: filter).map { known + $0 } } }
        columnsConcerned = concerned
    }

    /// True for the rows of the table, called `row`, that conflict with NEW. NULL conflicts with nothing.
    package func condition(on table: DeclaredTable, as row: String) -> String {
        let virtual = table.generatedColumns.filter { $0.kind == .virtual }.map { SQL.quote($0.name) }
        let stored = (table.columns.map { SQL.quote($0.name) } + virtual).map { "\($0) AS \($0)" }.joined(separator: ", ")
        let new = (table.columns.map(\.newValue) + virtual.map { "NEW.\($0)" }).joined(separator: ", ")
        let source = "(SELECT \(stored) FROM \(SQL.quote(table.name)) WHERE 0 UNION ALL SELECT \(new) LIMIT 1) AS \(row)"
        var conditions = terms.map { term in
            switch term {
            case .column(let column):
                let name = SQL.quote(column.name ?? "")
                let own = column.place.map { table.columns[$0].collation }
                // The column's own collation applies by itself; the index may have been given another.
                let collate = own == column.collation ? "" : " COLLATE \(SQL.quote(column.collation))"
                let new = column.place.map { table.columns[$0].newValue } ?? "NEW.\(name)"
                return "\(row).\(name) = \(new)\(collate)"
            case .expression(let stored, let computed, let collation):
                return "\(stored) = (SELECT \(computed) FROM \(source)) COLLATE \(SQL.quote(collation))"
            }
        }
        if let filter { conditions.append("(\(filter))") }
        return conditions.joined(separator: " AND ")
    }
}

extension DeclaredTable {
    /// Places of the stored columns that an expression depends on, by way of generated ones too; nil when one of these could not be
    /// understood.
    fileprivate func places(in sql: String) -> [Int]? {
        var (places, expressions, seen): (Set<Int>, [String], Set<String>) = ([], [sql], [])
        while let expression = expressions.popLast() {
            for name in SQLToken.all(in: expression).compactMap(\.identifier) where seen.insert(name.foldedIdentifier).inserted {
                if let place = place(of: name) { places.insert(place) }
                guard let generated = generatedColumns.first(where: { $0.name.isSameIdentifier(as: name) }) else { continue }
                guard let sql = generated.expression else { return nil }
                expressions.append(sql)
            }
        }
        return places.sorted()
    }

    /// The expression of a generated column, in parentheses.
    fileprivate func generationExpression(of name: String) -> String? {
        generatedColumns.first { $0.name.isSameIdentifier(as: name) }?.expression.map { "(\($0))" }
    }
}

extension DeclaredTable.Column {
    /// The column of NEW, or what a REPLACE puts there in place of NULL.
    fileprivate var newValue: String {
        let new = "NEW.\(SQL.quote(name))"
        return valueForNull.map { "coalesce(\(new), \($0))" } ?? new
    }

    /// The default of a column that may not be NULL, as SQL that every program can run: what calls functions, which may be
    /// one program's own, is left out.
    private var valueForNull: String? {
        guard isNotNull, let defaultSQL else { return nil }
        let tokens = SQLToken.all(in: defaultSQL)
        // One word is TRUE, a time or the like.
        if tokens.count == 1, let name = tokens[0].identifier { return tokens[0].isWord("NULL") ? nil : name }
        return tokens.contains { $0.identifier != nil } ? nil : "(\(defaultSQL))"
    }
}
