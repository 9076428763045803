import AnnalsCore
import AnnalsSQLite

/// The order of columns in a CREATE TABLE statement.
package enum ColumnOrder {
    /// The statement with these columns first, in this order. Other columns follow in the order of the statement, and then the constraints
    /// of the table.
    package static func arrange(_ sql: String, like names: [String]) -> String {
        let parts = parts(of: sql)
        guard let first = parts.first, let last = parts.last else { return sql }
        let bytes = Array(sql.utf8)
        func text(_ part: Part) -> String { String(decoding: bytes[part.range], as: UTF8.self) }
        let columns = parts.prefix { $0.column != nil }
        let known = names.compactMap { name in columns.first { $0.column?.isSameIdentifier(as: name) ?? false } }
        let others = columns.filter { column in !known.contains { $0.range == column.range } }
        let ordered = known + others + parts.dropFirst(columns.count)
        return String(decoding: bytes[..<first.range.lowerBound], as: UTF8.self) + ordered.map(text).joined(separator: ",")
            + String(decoding: bytes[last.range.upperBound...], as: UTF8.self)
    }

    /// The definition of a column or a constraint of the table, between commas.
    private struct Part {
        var range: Range<Int>
        /// nil for a constraint.
        var column: String?
    }

    private static func parts(of sql: String) -> [Part] {
        var parts: [Part] = []
        var (depth, start, column): (Int, Int?, String?) = (0, nil, nil)
        var isFirst = false
        for token in SQLToken.all(in: sql) {
            if depth == 1, let from = start, token.isSymbol(",") || token.isSymbol(")") {
                parts.append(Part(range: from..<token.range.lowerBound, column: column))
                (start, column, isFirst) = (token.range.upperBound, nil, true)
                if token.isSymbol(")") { return parts }
                continue
            }
            if isFirst {
                column = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].contains(where: token.isWord) ? nil : token.name
                isFirst = false
            }
            if token.isSymbol("(") {
                depth += 1
                if depth == 1 { (start, isFirst) = (token.range.upperBound, true) }
            }
            if token.isSymbol(")") { depth -= 1 }
        }
        return []
    }
}
