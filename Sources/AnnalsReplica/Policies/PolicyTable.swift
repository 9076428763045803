public import AnnalsCore
import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// A policy in force, and its scope.
public struct PolicyInForce: Hashable, Sendable {
    public var setting: PolicySetting
    /// Whether it is set only on this replica, for its own transactions. Otherwise it is a policy of the space.
    public var isOverride: Bool
}

/// The conflict policies of a replica: the policies of the space, which are in its log, and the overrides of this replica. They are
/// stored under canonical names and are used under local names.
package enum PolicyTable {
    package static let schema = """
        CREATE TABLE annals_policies (
            here INTEGER NOT NULL,
            name TEXT NOT NULL COLLATE NOCASE,
            column_name TEXT NOT NULL COLLATE NOCASE,
            aspect INTEGER NOT NULL,
            policy TEXT NOT NULL,
            PRIMARY KEY (here, name, column_name, aspect)
        ) WITHOUT ROWID;
        """

    /// Sets policies. A setting without a policy removes an earlier one.
    package static func set(_ db: Database, _ settings: [PolicySetting], isOverride: Bool) throws {
        for setting in settings {
            let key: StatementArguments = [isOverride, setting.table ?? "", setting.column ?? "", setting.aspect.rawValue]
            if setting.policy.isEmpty {
                try db.execute(
                    sql: "DELETE FROM annals_policies WHERE here = ? AND name = ? AND column_name = ? AND aspect = ?", arguments: key)
            } else {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO annals_policies (here, name, column_name, aspect, policy) VALUES (?, ?, ?, ?, ?)",
                    arguments: key + [setting.policy])
            }
        }
    }

    /// Deletes the policies of the space, and leaves the overrides of this replica.
    static func forgetShared(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_policies WHERE here = 0")
    }

    /// Copies the policies of the space to a table of this name in an attached snapshot.
    static func copyShared(_ db: Database, to table: String) throws {
        try db.execute(
            sql: "CREATE TABLE \(table) AS SELECT name, column_name, aspect, policy FROM main.annals_policies WHERE here = 0")
    }

    /// Copies the policies of the space from a snapshot's table.
    static func readShared(from table: String, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO annals_policies (here, name, column_name, aspect, policy)
                SELECT 0, name, column_name, aspect, policy FROM \(table)
                """)
    }

    /// The policies in force under local names. Policies for tables and columns that this store lacks are left out.
    package static func load(_ db: Database, for tables: TrackedTables) throws -> [PolicyInForce] {
        let all = try load(db)
        guard !tables.canonicalNames.isEmpty else { return all }
        let names = tables.localNames
        return all.compactMap { policy in
            guard let table = policy.setting.table else { return policy }
            guard let entry = tables.table(first: table) else { return nil }
            if let column = policy.setting.column, entry.first.columnIndex(of: column) == nil { return nil }
            var policy = policy
            policy.setting = policy.setting.renamed(names)
            return policy
        }
    }

    /// The policies of the space first, then overrides, each from the widest scope to the narrowest. Under canonical names.
    package static func load(_ db: Database) throws -> [PolicyInForce] {
        let rows = try GRDB.Row.fetchAll(
            db,
            sql:
                "SELECT here, name, column_name, aspect, policy FROM annals_policies ORDER BY here, column_name <> '', name, column_name, aspect"
        )
        return try rows.map { row in
            let (name, column): (String, String) = try (row.value("name"), row.value("column_name"))
            guard let aspect = try PolicySetting.Aspect(rawValue: row.value("aspect")) else { throw Corruption("annals_policies.aspect") }
            return try PolicyInForce(
                setting: PolicySetting(
                    table: name.isEmpty ? nil : name, column: column.isEmpty ? nil : column, aspect: aspect, policy: row.value("policy")),
                isOverride: row.value("here"))
        }
    }
}

extension PolicySetting {
    /// The setting under other names, also within an `sql:` expression.
    package func renamed(_ names: NameMap) -> PolicySetting {
        guard let table else { return self }
        var renamed = self
        renamed.table = names.table(table)
        renamed.column = column.map { names.column($0, of: table) }
        if case .sql(let expression)? = ColumnPolicy(policy) {
            renamed.policy = ColumnPolicy.sql(names.expression(expression, of: table)).description
        }
        return renamed
    }
}
