import AnnalsCore
import AnnalsSQLite

/// A column that a replica dropped, as a statement of a schema entry. Both names are canonical names.
///
/// The column leaves the space's schema. Replicas that still have it keep it and exchange its values with each other; the others ignore
/// these values. Its canonical name is never used again.
package struct ColumnRemoval: Hashable, Sendable {
    package var table: String
    package var column: String

    package init(table: String, column: String) {
        self.table = table
        self.column = column
    }

    /// The statement in a schema entry.
    package var statement: String { "ALTER TABLE \(SQL.quote(table)) DROP COLUMN \(SQL.quote(column))" }

    /// nil if the statement is not a removal.
    package init?(statement: String) {
        let tokens = SQLToken.all(in: statement)
        guard tokens.count == 6, tokens[0].isWord("ALTER"), tokens[1].isWord("TABLE"), tokens[3].isWord("DROP"), tokens[4].isWord("COLUMN"),
            let table = tokens[2].identifier, let column = tokens[5].identifier
        else { return nil }
        self.init(table: table, column: column)
    }

    func isSame(as other: ColumnRemoval) -> Bool {
        table.isSameIdentifier(as: other.table) && column.isSameIdentifier(as: other.column)
    }
}

extension SpaceSchema {
    /// Why rows without a column cannot be written by all replicas that still have it; nil if they can. The text continues "it is".
    package func reasonToKeep(_ column: String, of table: DeclaredTable) -> String? {
        guard let columnIndex = table.columnIndex(of: column) else { return nil }
        func isIt(_ name: String) -> Bool { name.isSameIdentifier(as: column) }
        if table.primaryKey.contains(columnIndex) { return "a part of the primary key" }
        let isUnique = table.uniqueIndexes.contains { index in
            index.columns.contains { $0.name.map(isIt) ?? false }
                || index.isCoarse && index.sql.map { table.names(in: $0).contains(where: isIt) } ?? false
        }
        if isUnique { return "in a UNIQUE constraint or index" }
        if table.foreignKeys.contains(where: { $0.columns.contains(where: isIt) }) { return "a foreign key" }
        let isParent = tables.contains { other in
            other.foreignKeys.contains { $0.parentTable.isSameIdentifier(as: table.name) && $0.parentColumns.contains(where: isIt) }
        }
        if isParent { return "referenced by a foreign key" }
        if table.generatedColumns.contains(where: { table.names(in: $0.expression ?? column).contains(where: isIt) }) {
            return "used by a generated column"
        }
        return nil
    }

    /// The removals of columns that the space has and can do without. Others are ignored, so that an entry cannot stop a replica.
    package func possible(_ removals: [ColumnRemoval]) -> [ColumnRemoval] {
        removals.filter { removal in
            guard let table = table(named: removal.table), table.columnIndex(of: removal.column) != nil else { return false }
            return reasonToKeep(removal.column, of: table) == nil
        }
    }

    /// Columns that the space has removed and a store still has, as `table.column` under the store's names, sorted.
    package func leftover(in tables: TrackedTables) -> [String] {
        guard removed != nil else { return [] }
        return tables.entries.flatMap { entry in
            zip(entry.first.columns, entry.definition.columns)
                .filter { isRemoved($0.0.name, of: entry.first.name) }.map { "\(entry.definition.name).\($0.1.name)" }
        }.sorted()
    }

    package func isRemoved(_ column: String, of table: String) -> Bool {
        removed?[table.foldedIdentifier]?.contains(column.foldedIdentifier) ?? false
    }
}
