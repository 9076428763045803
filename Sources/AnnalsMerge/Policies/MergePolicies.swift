package import AnnalsCore

/// The policies by which one replica resolves the conflicts of its own transactions. Replicas may have different
/// policies, because the log contains the results as plain values.
///
///     var policies = MergePolicies()
///     policies["counter"].columns["value"] = .sum
///     policies["booking"].isWhole = true
package struct MergePolicies: Sendable {
    /// The policies of one table.
    package struct Table: Hashable, Sendable {
        /// Resolves conflicts for the row as a whole. nil if each column is resolved separately.
        package var row: RowPolicy?
        /// For columns that are not in `columns`.
        package var column: ColumnPolicy
        /// By column name, with A–Z in lower case.
        package var columns: [String: ColumnPolicy]
        package var delete: DeleteRule
        package var unique: UniqueRule
        package var key: KeyRule
        /// Whether a transaction that touches the table applies completely or not at all.
        package var isWhole: Bool

        package init(
            row: RowPolicy? = nil, column: ColumnPolicy = .lastWriterWins, columns: [String: ColumnPolicy] = [:],
            delete: DeleteRule = .lastWriterWins, unique: UniqueRule = .keepFirst, key: KeyRule = .renumber, isWhole: Bool = false
        ) {
            self.row = row
            self.column = column
            self.columns = columns
            self.delete = delete
            self.unique = unique
            self.key = key
            self.isWhole = isWhole
        }

        package func policy(ofColumn name: String) -> ColumnPolicy {
            columns.isEmpty ? column : columns[name.foldedIdentifier] ?? column
        }

        /// Whether the resolution of a conflict needs the whole row, before and after the incoming transaction.
        package var needsWholeRows: Bool {
            switch row {
            case .overwrite?, .custom?: true
            case .rollback?, .manual?, nil: false
            }
        }
    }

    /// Computes an SQL expression for one conflict. nil if the result of the expression cannot be used.
    package typealias SQLEvaluator = @Sendable (_ expression: String, SQLConflict) throws -> Value?
    package typealias RowResolver = @Sendable (RowConflict) throws -> RowResolution

    /// For tables without their own policies.
    package var standard: Table
    /// By table name, with A–Z in lower case.
    private var tables: [String: Table] = [:]
    /// Computes the expressions of `sql:` policies. Without it their values cannot be combined.
    package var evaluate: SQLEvaluator?
    /// The closures of `custom:` policies, by name; no public call sets them. So a `custom:` policy cannot be set for a
    /// space, and one that is in a log without its closure here is ignored. If the program's own policies name a closure
    /// that is missing, a sync that must rebase a change of the table ends with an error (`missingResolver(of:)`).
    package var resolvers: [String: RowResolver] = [:]

    package init(standard: Table = Table()) {
        self.standard = standard
    }

    /// Sets one rule for conflicts of integer keys in every table.
    package mutating func setKeyRule(_ rule: KeyRule) {
        standard.key = rule
        for name in tables.keys { tables[name]?.key = rule }
    }

    /// The name of the closure that a table's policy needs but that is not registered. nil if none is missing.
    package func missingResolver(of table: String) -> String? {
        guard let name = self[table].row?.closureName, resolvers[name] == nil else { return nil }
        return name
    }

    /// The policies of a table. The name is not case-sensitive.
    package subscript(table: String) -> Table {
        get { tables.isEmpty ? standard : tables[table.foldedIdentifier] ?? standard }
        set { tables[table.foldedIdentifier] = newValue }
    }
}

/// The conflict of one column, as an `sql:` policy gets it.
package struct SQLConflict: Sendable {
    package var table: String
    package var column: String
    /// nil if the incoming transaction assumed that the row did not exist.
    package var base: Value?
    package var stored: Value
    package var incoming: Value
    /// The stored row, by column name.
    package var row: [String: Value]

    package init(table: String, column: String, base: Value?, stored: Value, incoming: Value, row: [String: Value]) {
        self.table = table
        self.column = column
        self.base = base
        self.stored = stored
        self.incoming = incoming
        self.row = row
    }
}
