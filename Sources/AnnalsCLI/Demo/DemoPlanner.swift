import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
import GRDB

/// Finds data for a demonstration in a user's own database: a cell to change on both sides, a second column of that row, and a
/// table with integer keys for inserts. Each statement is tried first, so that none is chosen that the schema refuses.
struct DemoPlanner {
    let db: Database
    private let tables: [DeclaredTable]

    /// - Parameter tracked: names of the tables that may be used.
    init(_ db: Database, tracked: [String]) throws {
        self.db = db
        tables = try tracked.compactMap { try SchemaReader(db).table($0) }
    }

    /// - Throws: `AnnalsError` with `.schemaRefused` if no tracked table has a row and a column that can be changed.
    func plan() throws -> DemoPlan {
        var plan = DemoPlan(shop: [], laptop: [], looks: [])
        guard try addCell(&plan) else {
            throw AnnalsError(
                .schemaRefused, operation: "demo", "no tracked table has a row with a column that the demo can change",
                hint: "Run annals demo without --store to use sample data")
        }
        try addInsert(&plan)
        return plan
    }

    // MARK: One cell on both sides, and another column of the same row

    private func addCell(_ plan: inout DemoPlan) throws -> Bool {
        // Prefer a table with two free columns, because it also shows a merge of different columns.
        for table in tables.sorted(by: { min(freeColumns($0).count, 2) > min(freeColumns($1).count, 2) }) {
            guard let row = try rowCondition(table) else { continue }
            let columns = try freeColumns(table).filter { column in
                try works(update(table, column, "shop", row)) && works(update(table, column, "laptop", row))
            }
            guard let first = columns.first else { continue }
            plan.shop.append(update(table, first, "shop", row))
            plan.laptop.append(update(table, first, "laptop", row))
            if columns.count > 1 { plan.laptop.append(update(table, columns[1], "laptop", row)) }
            let shown = table.primaryKey.map { table.columns[$0] } + columns.prefix(2)
            let list = shown.map { SQL.quote($0.name) }.joined(separator: ", ")
            plan.looks.append(
                .init(
                    title: "\(table.name).\(first.name), changed on both sides",
                    sql: "SELECT \(list) FROM \(SQL.quote(table.name)) WHERE \(row)"))
            return true
        }
        return false
    }

    /// A condition that selects the row in the middle of the table.
    private func rowCondition(_ table: DeclaredTable) throws -> String? {
        let name = SQL.quote(table.name)
        let keys = table.primaryKey.map { SQL.quote(table.columns[$0].name) }
        let quoted = keys.map { "quote(\($0))" }.joined(separator: ", ")
        let row = try GRDB.Row.fetchOne(
            db,
            sql: """
                SELECT \(quoted) FROM \(name) WHERE \(keys.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                ORDER BY \(keys.joined(separator: ", ")) LIMIT 1 OFFSET (SELECT count(*) / 2 FROM \(name))
                """)
        guard let row else { return nil }
        return keys.indices.map { "\(keys[$0]) = \(row[$0] as String? ?? "NULL")" }.joined(separator: " AND ")
    }

    /// Columns that are in no key, no reference and no unique index.
    private func freeColumns(_ table: DeclaredTable) -> [DeclaredTable.Column] {
        let taken = Set(
            table.primaryKey + table.foreignKeys.flatMap { $0.columnIndexes.compactMap { $0 } }
                + table.uniqueIndexes.flatMap { $0.columns.compactMap(\.columnIndex) })
        return table.columns.indices.filter { !taken.contains($0) && table.columns[$0].affinity != .blob }.map { table.columns[$0] }
    }

    private func update(_ table: DeclaredTable, _ column: DeclaredTable.Column, _ side: String, _ row: String)
        -> String
    {
        let name = SQL.quote(column.name)
        let value =
            column.affinity == .text
            ? "ifnull(\(name), '') || ' (\(side))'" : "ifnull(\(name), 0) + \(side == "shop" ? 1 : 2)"
        return "UPDATE \(SQL.quote(table.name)) SET \(name) = \(value) WHERE \(row)"
    }

    // MARK: The same next integer key on both sides

    private func addInsert(_ plan: inout DemoPlan) throws {
        let keyed = tables.filter { $0.rowidAlias != nil }
        // Prefer a table with children, because the demonstration can then show that they follow a renumbered parent.
        for table in keyed.filter({ !children(of: $0).isEmpty }) + keyed {
            for child in [children(of: table).first, nil] {
                let shop = insert(table, child, "shop")
                let laptop = insert(table, child, "laptop")
                guard try works(shop), try works(laptop) else { continue }
                let key = SQL.quote(table.columns[table.primaryKey[0]].name)
                let name = SQL.quote(table.name)
                let highest = try Int64.fetchOne(db, sql: "SELECT max(\(key)) FROM \(name)") ?? 0
                plan.shop += shop
                plan.laptop += laptop
                plan.looks.append(
                    .init(
                        title: "\(table.name): the same new number on both sides",
                        sql: "SELECT \(list(of: table)) FROM \(name) WHERE \(key) > \(highest) ORDER BY \(key)"))
                if let child {
                    let reference = SQL.quote(child.table.columns[child.columnIndex].name)
                    plan.looks.append(
                        .init(
                            title: "\(child.table.name): the rows that refer to them",
                            sql: """
                                SELECT \(list(of: child.table)) FROM \(SQL.quote(child.table.name))
                                WHERE \(reference) > \(highest) ORDER BY \(reference)
                                """))
                }
                return
            }
        }
    }

    private struct Child {
        var table: DeclaredTable
        /// The index of the column that refers to the parent.
        var columnIndex: Int
    }

    private func children(of parent: DeclaredTable) -> [Child] {
        tables.compactMap { table in
            guard table.name != parent.name else { return nil }
            let key = table.foreignKeys.first {
                $0.parentTable.isSameIdentifier(as: parent.name) && $0.columns.count == 1
                    && $0.parentColumns.first.map { parent.columnIndex(of: $0) == parent.rowidAlias } ?? false
            }
            return key?.columnIndexes.first?.map { Child(table: table, columnIndex: $0) }
        }
    }

    /// Copies the first row under the next number, and a child row that refers to it.
    private func insert(_ table: DeclaredTable, _ child: Child?, _ side: String) -> [String] {
        var statements = [copy(table, side, replacing: table.rowidAlias.map { [$0: "NULL"] } ?? [:])]
        if let child {
            let alias = SQL.quote(table.columns[table.primaryKey[0]].name)
            var values = [child.columnIndex: "(SELECT max(\(alias)) FROM \(SQL.quote(table.name)))"]
            if let own = child.table.rowidAlias, own != child.columnIndex { values[own] = "NULL" }
            statements.append(copy(child.table, side, replacing: values))
        }
        return statements
    }

    private func copy(_ table: DeclaredTable, _ side: String, replacing: [Int: String]) -> String {
        // Unique columns get the side's name. Without any, another text column gets it, so that the rows of the two sides differ.
        let unique = Set(table.uniqueIndexes.flatMap { $0.columns.compactMap(\.columnIndex) })
        let free = freeColumns(table).first { $0.affinity == .text }?.name
        let values = table.columns.indices.map { columnIndex -> String in
            let name = SQL.quote(table.columns[columnIndex].name)
            if let value = replacing[columnIndex] { return value }
            let isMarked = unique.contains(columnIndex) || (unique.isEmpty && table.columns[columnIndex].name == free)
            return isMarked && table.columns[columnIndex].affinity == .text ? "\(name) || ' (\(side))'" : name
        }
        let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        let name = SQL.quote(table.name)
        return "INSERT INTO \(name) (\(columns)) SELECT \(values.joined(separator: ", ")) FROM \(name) LIMIT 1"
    }

    private static let columnsShown = 6

    private func list(of table: DeclaredTable) -> String {
        table.columns.prefix(Self.columnsShown).map { SQL.quote($0.name) }.joined(separator: ", ")
    }

    // MARK: Trying

    private func works(_ statement: String) throws -> Bool { try works([statement]) }

    /// Whether the statements run and change something. The changes are rolled back.
    private func works(_ statements: [String]) throws -> Bool {
        var changed = true
        do {
            try db.inSavepoint {
                for statement in statements {
                    try db.execute(sql: statement)
                    changed = changed && db.changesCount > 0
                }
                return .rollback
            }
            return changed
        } catch is DatabaseError {
            return false
        }
    }
}
