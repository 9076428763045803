package import AnnalsCore
package import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Checks that policies are valid for a schema and its rows, before they are set for all replicas.
package struct PolicyCheck {
    private let db: Database
    private let tables: [DeclaredTable]

    package init(_ db: Database, tables: [DeclaredTable]) {
        self.db = db
        self.tables = tables
    }

    package func check(_ settings: [PolicySetting]) throws {
        for setting in settings { try check(setting) }
    }

    private func check(_ setting: PolicySetting) throws {
        var table: DeclaredTable?
        if let name = setting.table {
            table = tables.first { $0.name.isSameIdentifier(as: name) }
            if table == nil {
                throw Self.usage(
                    "there is no tracked table \(name)", "The tracked tables are \(tables.map(\.name).joined(separator: ", "))")
            }
        }
        if let table, let column = setting.column {
            guard let columnIndex = table.columns.firstIndex(where: { $0.name.isSameIdentifier(as: column) }) else {
                throw Self.usage("the table \(table.name) has no stored column \(column)")
            }
            if table.primaryKey.contains(columnIndex) {
                throw Self.usage("\(table.name).\(column) is part of the primary key: keys are not merged")
            }
            if setting.aspect == .update, ColumnPolicy(setting.policy) == .sum { try checkNumbers(in: table, table.columns[columnIndex]) }
        }
        guard !setting.policy.isEmpty else { return }
        try checkName(setting, table)
    }

    /// Texts and blobs cannot be added: each conflict would end as with `lastWriterWins`, and one of the two changes would be lost.
    private func checkNumbers(in table: DeclaredTable, _ column: DeclaredTable.Column) throws {
        let name = "\(table.name).\(column.name)"
        guard column.affinity != .text else {
            throw Self.usage(
                "sum adds numbers, and \(name) is declared \(column.declaredType), so all its values are texts",
                "Choose another policy, or declare the column as a number first")
        }
        let sql = """
            SELECT count(*) FROM main.\(SQL.quote(table.name)) WHERE typeof(\(SQL.quote(column.name))) IN ('text', 'blob')
            """
        let count = try Int.fetchOne(db, sql: sql) ?? 0
        guard count > 0 else { return }
        throw Self.usage(
            "sum adds numbers, and \(count) \(count == 1 ? "row has" : "rows have") a text or a blob in \(name)",
            "Change these values to numbers or NULL, or choose another policy")
    }

    private func checkName(_ setting: PolicySetting, _ table: DeclaredTable?) throws {
        let name = setting.policy
        switch setting.aspect {
        case .update:
            if let policy = ColumnPolicy(name) {
                if case .sql(let expression) = policy { try check(expression, table) }
            } else if RowPolicy(name).map({ $0.closureName != nil }) ?? true {
                throw Self.unknown(setting, Self.updatePolicies)
            } else if setting.column != nil {
                throw Self.usage("\(name) applies to whole rows: set it for a table or the space, not for a column")
            }
        case .delete: if DeleteRule(rawValue: name) == nil { throw Self.unknown(setting, DeleteRule.allCases.map(\.rawValue)) }
        case .unique: if UniqueRule(rawValue: name) == nil { throw Self.unknown(setting, UniqueRule.allCases.map(\.rawValue)) }
        case .key: if KeyRule(rawValue: name) == nil { throw Self.unknown(setting, KeyRule.allCases.map(\.rawValue)) }
        case .schema:
            if NewSchemas(rawValue: name).map({ $0 == .asSpaceSays }) ?? true { throw Self.unknown(setting, ["take", "wait"]) }
            if setting.table != nil { throw Self.usage("the policy for schema changes applies to the whole space: name no table") }
        case .whole: if name != "yes", name != "no" { throw Self.unknown(setting, ["yes", "no"]) }
        }
    }

    /// An expression for more than one table must not use columns.
    private func check(_ expression: String, _ table: DeclaredTable?) throws {
        do {
            try PolicyExpression().check(expression, columns: table?.columns.map(\.name) ?? [])
        } catch PolicyExpression.Failure.invalid(let reason) {
            throw Self.usage("SQLite refuses sql: \(expression) (\(reason))")
        }
    }

    private static let updatePolicies = [
        "lastWriterWins", "mergeByPropertyStoreTrump", "mergeByPropertyObjectTrump", "sum", "min", "max", "union", "json", "text",
        "sql: EXPRESSION", "overwrite", "rollback", "manual",
    ]

    private static func unknown(_ setting: PolicySetting, _ known: [String]) -> AnnalsError {
        usage("there is no policy \(setting.policy) for this", "The policies are \(known.joined(separator: ", "))")
    }

    private static func usage(_ message: String, _ hint: String? = nil) -> AnnalsError {
        AnnalsError(.usage, operation: "policy", message, hint: hint)
    }
}

extension MergePolicies {
    /// The policies in force. The narrower scope has priority, and within one scope this replica's overrides have priority over the
    /// space's policies. `base` has the program's own policies, which apply if no other policy is set.
    package init(_ inForce: [PolicyInForce], over base: MergePolicies) throws {
        self = base
        // Nothing is known about a policy without its closure, so it changes nothing. A member cannot stop others with it.
        let inForce = inForce.filter { policy in
            RowPolicy(policy.setting.policy)?.closureName.map { base.resolvers[$0] != nil } ?? true
        }
        guard !inForce.isEmpty else { return }
        let expressions = try PolicyExpression()
        evaluate = { expression, conflict in
            let row = conflict.row.sorted { $0.key < $1.key }
            return try? expressions.evaluate(
                expression, base: conflict.base, stored: conflict.stored, incoming: conflict.incoming, columns: row.map(\.key),
                row: row.map(\.value))
        }
        // The list is sorted: the space's policies first, then overrides, and wide scopes first. So each policy replaces the earlier ones.
        for isOverride in [false, true] {
            let settings = inForce.filter { $0.isOverride == isOverride }.map(\.setting)
            for setting in settings where setting.table == nil { standard.put(setting) }
        }
        let tables = Set(inForce.compactMap(\.setting.table))
        for table in tables {
            var rules = self[table]
            for policy in inForce where policy.setting.table?.isSameIdentifier(as: table) ?? false { rules.put(policy.setting) }
            self[table] = rules
        }
    }
}

extension MergePolicies.Table {
    /// Unknown names change nothing, because a newer replica may have set them.
    fileprivate mutating func put(_ setting: PolicySetting) {
        switch setting.aspect {
        case .update:
            if let column = setting.column {
                if let policy = ColumnPolicy(setting.policy) { columns[column.foldedIdentifier] = policy }
            } else if let policy = ColumnPolicy(setting.policy) {
                self.column = policy
                row = nil
            } else if let policy = RowPolicy(setting.policy) {
                row = policy
            }
        case .delete: delete = DeleteRule(rawValue: setting.policy) ?? delete
        case .unique: unique = UniqueRule(rawValue: setting.policy) ?? unique
        case .key: key = KeyRule(rawValue: setting.policy) ?? key
        case .schema: break
        case .whole: isWhole = setting.policy == "yes"
        }
    }
}

extension PolicySetting {
    /// Whether it settles conflicting updates of a row as a whole. Then policies of single columns are not used.
    package var settlesWholeRows: Bool { aspect == .update && column == nil && RowPolicy(policy) != nil }
}
