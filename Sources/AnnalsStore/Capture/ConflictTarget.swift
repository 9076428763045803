internal import AnnalsCore

/// A primary key or unique index, as a trigger asks it: which rows of the table would keep NEW out?
///
/// NEW cannot be put through an index's expressions directly, because a trigger's NEW columns have no affinity: with an
/// INTEGER column `a`, `a = '1'` is true in the table and false for NEW.a. So NEW goes through a subquery that begins
/// with the table itself and takes the columns' affinities and collations from there.
enum ConflictTarget: Hashable {
    case columns([TableDefinition.IndexColumn])
    /// One SQL expression per indexed column and the WHERE clause, all over the table's columns by name.
    case expressions([Expression], where: String?)

    struct Expression: Hashable {
        /// How a row of the table shows the value.
        var stored: String
        /// How it is computed from the stored columns; the same unless it is a STORED generated column, which a BEFORE
        /// UPDATE trigger sees as NULL.
        var computed: String
        var collation: String
        /// Places of the stored columns it depends on; nil when that cannot be told.
        var places: [Int]?
    }

    init(_ index: TableDefinition.UniqueIndex, of table: TableDefinition) {
        guard index.isPartial || index.places == nil else {
            self = .columns(index.columns)
            return
        }
        let text = index.sql.map { SQLText($0) }
        let parts = text?.indexExpressions ?? []
        let expressions = index.columns.enumerated().map { number, column in
            guard let name = column.name else {
                let sql = number < parts.count ? parts[number] : "NULL"
                return Expression(stored: "(\(sql))", computed: "(\(sql))", collation: column.collation, places: table.places(in: sql))
            }
            let quoted = SQL.quote(name)
            guard column.place == nil else {
                return Expression(stored: quoted, computed: quoted, collation: column.collation, places: column.place.map { [$0] })
            }
            return Expression(
                stored: quoted, computed: table.generationExpression(of: name) ?? quoted, collation: column.collation, places: nil)
        }
        self = .expressions(expressions, where: text?.indexCondition)
    }

    /// Places of the columns whose change can bring about a conflict; nil for all of them.
    var columnsConcerned: [Int]? {
        switch self {
        case .columns(let columns): return columns.compactMap(\.place)
        case .expressions(let expressions, let condition):
            guard condition == nil, expressions.allSatisfy({ $0.places != nil }) else { return nil }
            return expressions.flatMap { $0.places ?? [] }
        }
    }

    /// True for the rows of the table, called `row`, that conflict with NEW. NULL conflicts with nothing.
    func condition(on table: TableDefinition, as row: String) -> String {
        switch self {
        case .columns(let columns):
            let terms = columns.map { column in
                let name = SQL.quote(column.name ?? "")
                let own = column.place.map { table.columns[$0].collation }
                // The column's own collation applies by itself; the index may have been given another.
                let collate = own == column.collation ? "" : " COLLATE \(SQL.quote(column.collation))"
                return "\(row).\(name) = NEW.\(name)\(collate)"
            }
            return terms.joined(separator: " AND ")
        case .expressions(let expressions, let condition):
            let names = table.columns.map { SQL.quote($0.name) } + table.virtualColumnNames
            let stored = names.map { "\($0) AS \($0)" }.joined(separator: ", ")
            let new = names.map { "NEW.\($0)" }.joined(separator: ", ")
            let source = "(SELECT \(stored) FROM \(SQL.quote(table.name)) WHERE 0 UNION ALL SELECT \(new)) AS \(row)"
            let limit = condition.map { " WHERE \($0)" } ?? ""
            var terms = expressions.map { expression in
                "\(expression.stored) = (SELECT \(expression.computed) FROM \(source)\(limit)) COLLATE \(SQL.quote(expression.collation))"
            }
            if let condition { terms.append("(\(condition))") }
            return terms.joined(separator: " AND ")
        }
    }
}

extension TableDefinition {
    fileprivate var virtualColumnNames: [String] {
        generatedColumns.filter { $0.kind == .virtual }.map { SQL.quote($0.name) }
    }

    /// Places of the stored columns an expression names; nil when it names a generated one.
    fileprivate func places(in sql: String) -> [Int]? {
        let names = SQLText(sql).tokens.compactMap(\.identifier)
        let generated = generatedColumns.map(\.name)
        guard !names.contains(where: { name in generated.contains { $0.isSameIdentifier(as: name) } }) else { return nil }
        return names.compactMap(place(of:))
    }

    /// The expression of a generated column, in parentheses.
    fileprivate func generationExpression(of name: String) -> String? {
        generatedColumns.first { $0.name.isSameIdentifier(as: name) }?.expression.map { "(\($0))" }
    }
}
