package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Finds the rows that keep another out of a table's key and unique indexes, partial and expression ones included.
package struct UniqueHolders {
    private let session: MergeSession
    private let definition: DeclaredTable
    /// The row of a key.
    private let row: ([Value]) throws -> [Value]?

    package init(_ session: MergeSession, _ table: RowTable) {
        self.init(session, table.definition) { try table.row($0) }
    }

    package init(_ session: MergeSession, _ definition: DeclaredTable, row: @escaping ([Value]) throws -> [Value]?) {
        self.session = session
        self.definition = definition
        self.row = row
    }

    package func collisions(of row: [Value]) throws -> [UniqueCollision] {
        var collisions: [UniqueCollision] = []
        let key = zip(definition.primaryKey, definition.primaryKeyCollations).map {
            DeclaredTable.IndexColumn(name: definition.columns[$0].name, columnIndex: $0, collation: $1)
        }
        if let holder = try holder(of: row, ConflictTarget(columns: key)) {
            collisions.append(UniqueCollision(holder: holder, columnIndexes: definition.primaryKey, isKey: true))
        }
        for index in definition.uniqueIndexes {
            guard let holder = try holder(of: row, ConflictTarget(index, of: definition)) else { continue }
            let target = ConflictTarget(index, of: definition)
            collisions.append(UniqueCollision(holder: holder, columnIndexes: index.columnIndexes ?? target.columnsConcerned, isKey: false))
        }
        return collisions
    }

    /// The condition refers to NEW, as in a trigger. Here an outer query provides that row.
    private func holder(of wanted: [Value], _ target: ConflictTarget) throws -> [Value]? {
        let name = SQL.quote(definition.name)
        let condition = target.condition(on: definition, as: "held")
        let key = definition.primaryKey.map { SQL.quote(definition.columns[$0].name) }
        let found = key.map { "(SELECT held.\($0) FROM \(name) AS held WHERE \(condition) LIMIT 1)" }
        let statement = try session.prepared(
            """
            SELECT \(found.joined(separator: ", ")) FROM \(newRow(definition)) AS NEW
            WHERE EXISTS (SELECT 1 FROM \(name) AS held WHERE \(condition))
            """)
        for (columnIndex, value) in wanted.enumerated() { statement.bind(columnIndex + 1, value) }
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return try row(statement.values(0..<key.count))
    }

    /// The row as a query. VIRTUAL columns, which an index may name, are computed as often as one can depend on another.
    private func newRow(_ definition: DeclaredTable) -> String {
        let columns = definition.columns.map { SQL.quote($0.name) }
        let virtual = definition.generatedColumns.filter { $0.kind == .virtual }
        let bound = columns.enumerated().map { "?\($0 + 1) AS \($1)" }
        var query = "(SELECT \((bound + virtual.map { "NULL AS \(SQL.quote($0.name))" }).joined(separator: ", ")) LIMIT 1)"
        for _ in virtual {
            let computed = virtual.map { "(\($0.expression ?? "NULL")) AS \(SQL.quote($0.name))" }
            query = "(SELECT \((columns + computed).joined(separator: ", ")) FROM \(query) LIMIT 1)"
        }
        return query
    }
}
