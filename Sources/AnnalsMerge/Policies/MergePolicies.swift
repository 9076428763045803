package import AnnalsCore

/// The rules by which one replica settles the conflicts of its own work. Policies may differ between replicas: what they
/// decided is in the log as plain values.
///
///     var policies = MergePolicies()
///     policies["counter"].columns["value"] = .sum
///     policies["booking"].isWhole = true
package struct MergePolicies: Sendable {
    /// The rules of one table.
    package struct Table: Hashable, Sendable {
        /// Settles the row as a whole; nil where each column is settled by itself.
        package var row: RowPolicy?
        /// For columns that `columns` does not name.
        package var column: ColumnPolicy
        /// By the column's name, in lower case as far as it is ASCII.
        package var columns: [String: ColumnPolicy]
        package var delete: DeleteRule
        package var unique: UniqueRule
        package var key: KeyRule
        /// A transaction that touches the table takes effect as a whole or not at all.
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
            columns.isEmpty ? column : columns[name.asciiFolded] ?? column
        }

        /// Whether settling a conflict needs the whole row as the incoming transaction found and left it.
        package var needsWholeRows: Bool {
            switch row {
            case .overwrite?, .custom?: true
            case .rollback?, .manual?, nil: false
            }
        }
    }

    /// Computes an SQL expression over one conflict; nil when the expression gives no value of use.
    package typealias SQLEvaluator = @Sendable (_ expression: String, SQLConflict) throws -> Value?
    package typealias RowResolver = @Sendable (RowConflict) throws -> RowResolution

    /// For tables that have no rules of their own.
    package var standard: Table
    /// By the table's name, in lower case as far as it is ASCII.
    private var tables: [String: Table] = [:]
    /// Computes the expressions of `sql:` policies; without it they count as not combinable.
    package var evaluate: SQLEvaluator?
    /// The closures of `custom:` policies, by name; one that is missing leaves stored as it is, for a person to settle.
    package var resolvers: [String: RowResolver] = [:]

    package init(standard: Table = Table()) {
        self.standard = standard
    }

    /// Settles integer keys by one rule in every table.
    package mutating func setKeyRule(_ rule: KeyRule) {
        standard.key = rule
        for name in tables.keys { tables[name]?.key = rule }
    }

    /// The name of the closure that a table's policy asks for and nobody registered; nil when none is missing.
    package func missingResolver(of table: String) -> String? {
        guard case .custom(let name)? = self[table].row, resolvers[name] == nil else { return nil }
        return name
    }

    /// The rules of a table, by its name in any case.
    package subscript(table: String) -> Table {
        get { tables.isEmpty ? standard : tables[table.asciiFolded] ?? standard }
        set { tables[table.asciiFolded] = newValue }
    }
}

/// One column's conflict, as an `sql:` policy sees it.
package struct SQLConflict: Sendable {
    package var table: String
    package var column: String
    /// nil where the incoming transaction believed that there was no row.
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

extension String {
    /// A–Z as a–z, as SQLite compares names.
    var asciiFolded: String {
        guard utf8.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }) else { return self }
        return String(decoding: utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }
}
