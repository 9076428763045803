package import AnnalsCore
package import AnnalsSQLite

/// A table as its schema declares it, with everything that capture, apply and footprints need.
///
/// Columns are identified by their index among the stored columns, as in changes and on the wire.
package struct DeclaredTable: Hashable, Codable, Sendable {
    /// The name in the spelling of the schema.
    package var name: String
    /// Stored columns in the table's order, without generated columns.
    package var columns: [Column]
    package var generatedColumns: [GeneratedColumn]
    /// Indices of the primary key's columns, in the key's order; empty if there is no primary key.
    package var primaryKey: [Int]
    /// The collation of each key column in the key's index.
    package var primaryKeyCollations: [String]
    /// The index of the INTEGER PRIMARY KEY column, which is an alias of the rowid.
    package var rowidAlias: Int?
    package var isAutoincrement: Bool
    package var isWithoutRowid: Bool
    package var isStrict: Bool
    package var kind: Kind
    /// UNIQUE constraints and unique indexes, sorted by name, without the index of the primary key.
    package var uniqueIndexes: [UniqueIndex]
    package var foreignKeys: [ForeignKey]
    /// The expressions of CHECK constraints as written, with single spaces.
    package var checks: [String] = []
    /// A digest of the whole declaration except the table's name. If the declaration changes, the digest changes.
    package var shape: String

    package enum Kind: String, Hashable, Codable, Sendable {
        case table, view, virtual, shadow
    }

    package struct Column: Hashable, Codable, Sendable {
        package var name: String
        package var declaredType: String
        package var affinity: Affinity
        /// The collation of the column: BINARY, NOCASE, RTRIM or one that a program defined.
        package var collation: String
        package var isNotNull: Bool
        package var hasDefault: Bool
        /// The default's expression as SQL; nil if there is none.
        package var defaultSQL: String?
        /// The value of rows that are older than the column, as SQL, if the column came with a rebuilt table; see `FilledColumns`.
        package var fillSQL: String?

        /// The value of rows that are older than the column, as SQL; nil if it is NULL.
        package var addedSQL: String? { fillSQL ?? defaultSQL }
    }

    package struct GeneratedColumn: Hashable, Codable, Sendable {
        package enum Kind: String, Hashable, Codable, Sendable { case virtual, stored }
        package var name: String
        package var kind: Kind
        package var collation: String
        /// The expression as SQL over stored and VIRTUAL columns; nil if the statement could not be parsed.
        package var expression: String?
    }

    package struct UniqueIndex: Hashable, Codable, Sendable {
        package var name: String
        package var columns: [IndexColumn]
        package var isPartial: Bool
        /// A UNIQUE constraint of the table created the index, not a CREATE INDEX statement.
        package var isConstraint: Bool
        /// The CREATE INDEX statement; nil for the index of a constraint.
        package var sql: String?

        package var hasExpression: Bool { columns.contains { $0.name == nil } }
        package var hasCustomCollation: Bool { columns.contains { !Collation.isBuiltIn($0.collation) } }
        /// The index's tuples cannot be computed from a row's values alone (merge rule 9).
        package var isCoarse: Bool { isPartial || hasExpression || hasCustomCollation }
        /// Indices of the indexed columns; nil if any is generated or an expression.
        package var columnIndexes: [Int]? {
            let columnIndexes = columns.compactMap(\.columnIndex)
            return columnIndexes.count == columns.count ? columnIndexes : nil
        }
    }

    package struct IndexColumn: Hashable, Codable, Sendable {
        /// nil for an expression.
        package var name: String?
        /// nil for an expression or a generated column.
        package var columnIndex: Int?
        package var collation: String

        package init(name: String? = nil, columnIndex: Int? = nil, collation: String) {
            self.name = name
            self.columnIndex = columnIndex
            self.collation = collation
        }
    }

    package struct ForeignKey: Hashable, Codable, Sendable {
        package var columns: [String]
        /// Indices of the child's columns; nil for a generated column.
        package var columnIndexes: [Int?]
        /// The parent's name in the spelling of its own declaration, or in the spelling of the foreign key if the parent does not
        /// exist.
        package var parentTable: String
        /// The parent's columns; its primary key if the declaration names no columns. Empty if the parent does not exist.
        package var parentColumns: [String]
        package var parentExists: Bool
        package var onDelete: ForeignKeyAction
        package var onUpdate: ForeignKeyAction
        package var match: String
    }

    package enum ForeignKeyAction: String, Hashable, Codable, Sendable, CaseIterable {
        case noAction = "NO ACTION"
        case restrict = "RESTRICT"
        case setNull = "SET NULL"
        case setDefault = "SET DEFAULT"
        case cascade = "CASCADE"
    }

    /// Whether a row's key can hold NULL. SQLite allows it outside WITHOUT ROWID tables unless a key column is NOT NULL. Such rows
    /// are captured by rowid and are not synced.
    package var keyMayBeNull: Bool {
        !isWithoutRowid && rowidAlias == nil && primaryKey.contains { !columns[$0].isNotNull }
    }

    /// Indices of columns that can hold long values by their affinity, without those of the primary key and of foreign keys.
    ///
    /// The action of a foreign key can change a row while another statement changes it, so foreign key columns are left out.
    package var columnIndexesThatMayBeLarge: [Int] {
        let naming = Set(primaryKey + foreignKeys.flatMap { $0.columnIndexes.compactMap { $0 } })
        return columns.indices.filter { [.text, .blob, .any].contains(columns[$0].affinity) && !naming.contains($0) }
    }

    /// Indices of columns beside the primary key that hold only texts, blobs and NULL.
    package var columnIndexesOfTexts: [Int] {
        columns.indices.filter { columns[$0].affinity == .text && !primaryKey.contains($0) }
    }

    /// A query that looks a row up by its key. The values of the key are bound to ?1, ?2 and so on, in the key's order.
    ///
    /// - Parameters:
    ///   - source: The source of the rows, as SQL; nil for the table itself.
    ///   - selected: The selected expressions, as SQL; nil for all columns in their order.
    package func lookup(in source: String? = nil, selecting selected: [String]? = nil, _ comparison: String = "=") -> String {
        let columns = selected ?? columns.map { SQL.quote($0.name) }
        return "SELECT \(columns.joined(separator: ", ")) FROM \(source ?? SQL.quote(name)) WHERE \(keyCondition(comparison))"
    }

    /// The condition that finds a row by its key. The values of the key are bound to ?1, ?2 and so on.
    package func keyCondition(_ comparison: String = "=") -> String {
        primaryKey.enumerated().map { "\(SQL.quote(columns[$1].name)) \(comparison) ?\($0 + 1)\(keyCollate($0))" }.joined(
            separator: " AND ")
    }

    /// The COLLATE clause for a comparison with a part of the key; empty if it is not needed. The key's index may have another
    /// collation than the column. Without the clause, two rows could match as one, or a row might not match.
    package func keyCollate(_ part: Int) -> String {
        let collation = primaryKeyCollations[part]
        return columns[primaryKey[part]].collation.isSameIdentifier(as: collation) ? "" : " COLLATE \(SQL.quote(collation))"
    }

    package var layout: TableLayout {
        TableLayout(name: name, columns: columns.map(\.name), key: primaryKey)
    }

    /// The index of a stored column by its name. SQLite ignores ASCII case in names.
    package func columnIndex(of column: String) -> Int? {
        columns.firstIndex { $0.name.isSameIdentifier(as: column) }
    }
}

/// The collations that every SQLite connection has.
package enum Collation {
    package static let binary = "BINARY"

    package static func isBuiltIn(_ name: String) -> Bool {
        ["BINARY", "NOCASE", "RTRIM"].contains(name.uppercased())
    }
}
