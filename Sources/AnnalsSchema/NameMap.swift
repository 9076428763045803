import AnnalsCore
import AnnalsSQLite
import Foundation

/// A mapping of the names of tables and columns, from local names to canonical names or back.
///
/// The log always uses a table's or column's *canonical name*. A store may use another name (ARCHITECTURE 7).
package struct NameMap: Hashable, Sendable {
    package struct Table: Hashable, Sendable {
        package var name: String
        /// By the folded name that is replaced.
        package var columns: [String: String] = [:]
    }

    /// By the folded name that is replaced. Tables that are not in it keep their names.
    package private(set) var tables: [String: Table] = [:]

    package init() {}

    package var isEmpty: Bool { tables.isEmpty }

    /// Adds the replaced names of a table and its columns. Adds nothing if all names are equal.
    package mutating func add(_ name: String, as other: String, columns: [(from: String, to: String)]) {
        let differing = columns.filter { $0.from != $0.to }
        guard name != other || !differing.isEmpty else { return }
        let byName = Dictionary(differing.map { ($0.from.foldedIdentifier, $0.to) }, uniquingKeysWith: { $1 })
        tables[name.foldedIdentifier] = Table(name: other, columns: byName)
    }

    package func table(_ name: String) -> String { tables[name.foldedIdentifier]?.name ?? name }

    package func column(_ name: String, of table: String) -> String {
        tables[table.foldedIdentifier]?.columns[name.foldedIdentifier] ?? name
    }

    // MARK: Declarations

    /// The table's declaration under the other names.
    package func definition(_ table: DeclaredTable) -> DeclaredTable {
        guard !isEmpty else { return table }
        var named = table
        func column(_ name: String) -> String { self.column(name, of: table.name) }
        named.name = self.table(table.name)
        for columnIndex in named.columns.indices { named.columns[columnIndex].name = column(table.columns[columnIndex].name) }
        for index in named.uniqueIndexes.indices {
            for columnIndex in named.uniqueIndexes[index].columns.indices {
                named.uniqueIndexes[index].columns[columnIndex].name = table.uniqueIndexes[index].columns[columnIndex].name.map(column)
            }
            named.uniqueIndexes[index].sql = table.uniqueIndexes[index].sql.map { expression($0, of: table.name) }
        }
        for index in named.foreignKeys.indices { named.foreignKeys[index] = foreignKey(table.foreignKeys[index], of: table.name) }
        for index in named.generatedColumns.indices {
            named.generatedColumns[index].expression = table.generatedColumns[index].expression.map { expression($0, of: table.name) }
        }
        named.checks = table.checks.map { expression($0, of: table.name) }
        return named
    }

    package func foreignKey(_ key: DeclaredTable.ForeignKey, of table: String) -> DeclaredTable.ForeignKey {
        var named = key
        named.columns = key.columns.map { column($0, of: table) }
        named.parentTable = self.table(key.parentTable)
        named.parentColumns = key.parentColumns.map { column($0, of: key.parentTable) }
        return named
    }

    /// Replaces names in SQL text over one table's columns, word by word. A name that is a function or a parameter stays.
    package func expression(_ sql: String, of table: String) -> String {
        guard let names = tables[table.foldedIdentifier] else { return sql }
        let tokens = SQLToken.all(in: sql)
        let source = Array(sql.utf8)
        var text: [UInt8] = []
        var end = 0
        for (index, token) in tokens.enumerated() {
            guard let name = token.identifier else { continue }
            let next = index + 1 < tokens.count ? tokens[index + 1].text : ""
            if next == "(" && token.kind == .word { continue }
            let isTable = next == "." && name.isSameIdentifier(as: table)
            guard let other = isTable ? names.name : names.columns[name.foldedIdentifier] else { continue }
            text += source[end..<token.range.lowerBound] + Array(SQL.quote(other).utf8)
            end = token.range.upperBound
        }
        return String(decoding: text + source[end...], as: UTF8.self)
    }
}
