import AnnalsCore
import AnnalsSQLite

/// A table or column that a replica dropped, as a statement of a schema entry. The names are canonical names.
///
/// It leaves the space's schema, and its canonical name is never used again. Replicas that still have a column keep it and exchange its
/// values with each other; the others ignore these values. Replicas that still have a table keep it, but it is not tracked any more.
package struct SpaceRemoval: Hashable, Sendable {
    package var table: String
    /// nil if the table itself was dropped.
    package var column: String?

    package init(table: String, column: String? = nil) {
        self.table = table
        self.column = column
    }

    /// The statement in a schema entry.
    package var statement: String {
        guard let column else { return "DROP TABLE \(SQL.quote(table))" }
        return "ALTER TABLE \(SQL.quote(table)) DROP COLUMN \(SQL.quote(column))"
    }

    /// nil if the statement is not a removal.
    package init?(statement: String) {
        let tokens = SQLToken.all(in: statement)
        if tokens.count == 3, tokens[0].isWord("DROP"), tokens[1].isWord("TABLE"), let table = tokens[2].identifier {
            self.init(table: table)
            return
        }
        guard tokens.count == 6, tokens[0].isWord("ALTER"), tokens[1].isWord("TABLE"), tokens[3].isWord("DROP"), tokens[4].isWord("COLUMN"),
            let table = tokens[2].identifier, let column = tokens[5].identifier
        else { return nil }
        self.init(table: table, column: column)
    }

    func isSame(as other: SpaceRemoval) -> Bool {
        table.isSameIdentifier(as: other.table) && column?.foldedIdentifier == other.column?.foldedIdentifier
    }
}

extension SpaceSchema {
    /// Why a column cannot leave the space; nil if it can. The text continues "it is".
    package func reasonToKeep(_ column: String, of table: DeclaredTable) -> String? {
        guard let columnIndex = table.columnIndex(of: column) else { return nil }
        func isIt(_ name: String) -> Bool { name.isSameIdentifier(as: column) }
        if table.primaryKey.contains(columnIndex) { return "a part of the primary key" }
        let isParent = tables.contains { other in
            other.foreignKeys.contains { $0.parentTable.isSameIdentifier(as: table.name) && $0.parentColumns.contains(where: isIt) }
        }
        if isParent { return "referenced by a foreign key" }
        if table.generatedColumns.contains(where: { table.names(in: $0.expression ?? column).contains(where: isIt) }) {
            return "used by a generated column"
        }
        return nil
    }

    /// Whether replicas that still have a column may not be able to write rows without it, because of a UNIQUE constraint or a foreign key.
    /// Such a column leaves the space with a new declaration of its table; see `SchemaAdditions.relaxed`.
    package func isConstrained(_ column: String, of table: DeclaredTable) -> Bool {
        func isIt(_ name: String) -> Bool { name.isSameIdentifier(as: column) }
        return table.foreignKeys.contains { $0.columns.contains(where: isIt) }
            || table.uniqueIndexes.contains { index in
                index.columns.contains { $0.name.map(isIt) ?? false }
                    || index.isCoarse && index.sql.map { table.names(in: $0).contains(where: isIt) } ?? false
            }
    }

    /// Whether foreign keys of the space could no longer refer to a table, because a UNIQUE constraint is missing.
    package func breaksReferences(_ relaxed: DeclaredTable) -> Bool {
        func folded(_ names: [String?]) -> Set<String?> { Set(names.map { $0?.foldedIdentifier }) }
        let keys =
            [folded(relaxed.primaryKey.map { relaxed.columns[$0].name })]
            + relaxed.uniqueIndexes.filter { !$0.isPartial && !$0.hasExpression }.map { folded($0.columns.map(\.name)) }
        return tables.flatMap(\.foreignKeys).contains { key in
            key.parentTable.isSameIdentifier(as: relaxed.name) && !keys.contains(folded(key.parentColumns))
        }
    }

    /// Whether a foreign key refers to the primary key or a UNIQUE index of a table of the space.
    package func isPossible(_ key: DeclaredTable.ForeignKey) -> Bool {
        guard let parent = table(named: key.parentTable) else { return false }
        func folded(_ names: [String?]) -> Set<String?> { Set(names.map { $0?.foldedIdentifier }) }
        let primary = folded(parent.primaryKey.map { parent.columns[$0].name })
        // A reference without columns is to the primary key. While the entry is read, the parent may lack it.
        if key.parentColumns.isEmpty || folded(key.parentColumns) == primary { return key.columns.count == primary.count }
        return parent.uniqueIndexes.contains {
            !$0.isPartial && !$0.hasExpression && folded($0.columns.map(\.name)) == folded(key.parentColumns)
        }
    }

    /// The first table with a foreign key to one of the removed tables that stays itself; nil if there is none.
    ///
    /// - Parameter removed: canonical names of tables.
    package func referrer(to removed: [String]) -> (child: String, parent: String)? {
        func isRemoved(_ name: String) -> Bool { removed.contains { $0.isSameIdentifier(as: name) } }
        for table in tables where !isRemoved(table.name) {
            if let key = table.foreignKeys.first(where: { isRemoved($0.parentTable) }) { return (table.name, key.parentTable) }
        }
        return nil
    }

    /// The removals of tables and columns that the space has and can do without. Others are ignored, so that an entry cannot stop a
    /// replica.
    package func possible(_ removals: [SpaceRemoval]) -> [SpaceRemoval] {
        var dropped = removals.filter { $0.column == nil && table(named: $0.table) != nil }
        while let parent = referrer(to: dropped.map(\.table))?.parent { dropped.removeAll { $0.table.isSameIdentifier(as: parent) } }
        return removals.filter { removal in
            guard let column = removal.column else { return dropped.contains(removal) }
            guard let table = table(named: removal.table), table.columnIndex(of: column) != nil else { return false }
            return reasonToKeep(column, of: table) == nil && !isConstrained(column, of: table)
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

    package func isRemoved(_ table: String) -> Bool { removedTables?.contains(table.foldedIdentifier) ?? false }
}
