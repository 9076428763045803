package import AnnalsCore
package import AnnalsSQLite

/// A table as its schema declares it: what capture, apply and footprints need to know.
///
/// Columns are meant by their place among the stored columns, as they are in changes and on the wire.
package struct DeclaredTable: Hashable, Codable, Sendable {
    /// The name as the schema spells it.
    package var name: String
    /// Stored columns in the table's order; generated ones are left out.
    package var columns: [Column]
    package var generatedColumns: [GeneratedColumn]
    /// Places of the primary key's columns, in the key's order; empty when there is none.
    package var primaryKey: [Int]
    /// The collation by which the key's index compares each of its columns.
    package var primaryKeyCollations: [String]
    /// The place of the INTEGER PRIMARY KEY, which is the rowid under another name.
    package var rowidAlias: Int?
    package var isAutoincrement: Bool
    package var isWithoutRowid: Bool
    package var isStrict: Bool
    package var kind: Kind
    /// UNIQUE constraints and unique indexes, the primary key's own left out, by name.
    package var uniqueIndexes: [UniqueIndex]
    package var foreignKeys: [ForeignKey]
    /// The expressions of CHECK constraints, as they are written, with single spaces.
    package var checks: [String] = []
    /// A digest of everything declared, the table's name left out: another shape means another declaration.
    package var shape: String

    package enum Kind: String, Hashable, Codable, Sendable {
        case table, view, virtual, shadow
    }

    package struct Column: Hashable, Codable, Sendable {
        package var name: String
        package var declaredType: String
        package var affinity: Affinity
        /// The collation by which the column compares: BINARY, NOCASE, RTRIM or a program's own.
        package var collation: String
        package var isNotNull: Bool
        package var hasDefault: Bool
        /// The default's expression as SQL, nil when there is none.
        package var defaultSQL: String?
    }

    package struct GeneratedColumn: Hashable, Codable, Sendable {
        package enum Kind: String, Hashable, Codable, Sendable { case virtual, stored }
        package var name: String
        package var kind: Kind
        package var collation: String
        /// Its expression as SQL over the stored and VIRTUAL columns; nil when the statement could not be understood.
        package var expression: String?
    }

    package struct UniqueIndex: Hashable, Codable, Sendable {
        package var name: String
        package var columns: [IndexColumn]
        package var isPartial: Bool
        /// Made by a UNIQUE constraint of the table rather than by CREATE INDEX.
        package var isConstraint: Bool
        /// The CREATE INDEX statement; nil for a constraint's.
        package var sql: String?

        package var hasExpression: Bool { columns.contains { $0.name == nil } }
        package var hasCustomCollation: Bool { columns.contains { !Collation.isBuiltIn($0.collation) } }
        /// Its tuples cannot be told from a row's values alone (merge rule 9).
        package var isCoarse: Bool { isPartial || hasExpression || hasCustomCollation }
        /// Places of its columns; nil as soon as one is generated or an expression.
        package var places: [Int]? {
            let places = columns.compactMap(\.place)
            return places.count == columns.count ? places : nil
        }
    }

    package struct IndexColumn: Hashable, Codable, Sendable {
        /// nil for an expression.
        package var name: String?
        /// nil for an expression or a generated column.
        package var place: Int?
        package var collation: String

        package init(name: String? = nil, place: Int? = nil, collation: String) {
            self.name = name
            self.place = place
            self.collation = collation
        }
    }

    package struct ForeignKey: Hashable, Codable, Sendable {
        package var columns: [String]
        /// Places of the child's columns; nil for a generated one.
        package var places: [Int?]
        /// The parent's name as its own declaration spells it, or as this one does when there is no such table.
        package var parentTable: String
        /// The parent's columns, its primary key where the declaration names none. Empty when there is no parent.
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

    package var isVirtual: Bool { kind == .virtual }

    /// A row can exist whose key holds NULL: SQLite allows it outside WITHOUT ROWID tables unless a key column says
    /// NOT NULL. Such rows are captured by rowid and stay local.
    package var keyMayBeNull: Bool {
        !isWithoutRowid && rowidAlias == nil && primaryKey.contains { !columns[$0].isNotNull }
    }

    /// Columns that can hold long values, by their affinity, and that nothing names rows by.
    ///
    /// A foreign key's action can change a row while it is being changed; so its columns are not among them.
    package var placesThatMayBeLarge: [Int] {
        let naming = Set(primaryKey + foreignKeys.flatMap { $0.places.compactMap { $0 } })
        return columns.indices.filter { [.text, .blob, .any].contains(columns[$0].affinity) && !naming.contains($0) }
    }

    /// Looks rows up by the key, whose values are the parameters in its order, and has the columns in theirs.
    ///
    /// - Parameters:
    ///   - source: in SQL, where the rows are; nil for the table itself.
    ///   - selected: in SQL, what is taken for the columns; nil for the columns themselves.
    package func lookup(in source: String? = nil, selecting selected: [String]? = nil, _ comparison: String = "=") -> String {
        let columns = selected ?? columns.map { SQL.quote($0.name) }
        return "SELECT \(columns.joined(separator: ", ")) FROM \(source ?? SQL.quote(name)) WHERE \(keyCondition(comparison))"
    }

    /// What finds the row of a key, whose parts are bound to ?1, ?2 and so on.
    package func keyCondition(_ comparison: String = "=") -> String {
        primaryKey.enumerated().map { "\(SQL.quote(columns[$1].name)) \(comparison) ?\($0 + 1)\(keyCollate($0))" }.joined(
            separator: " AND ")
    }

    /// What follows a comparison with a part of the key: the key's index may compare otherwise than the column does, and then two rows
    /// are one to the column, or one row two.
    package func keyCollate(_ part: Int) -> String {
        let collation = primaryKeyCollations[part]
        return columns[primaryKey[part]].collation.isSameIdentifier(as: collation) ? "" : " COLLATE \(SQL.quote(collation))"
    }

    package var layout: TableLayout {
        TableLayout(name: name, columns: columns.map(\.name), key: primaryKey)
    }

    /// The place of a stored column by its name, which SQLite compares without regard to ASCII case.
    package func place(of column: String) -> Int? {
        columns.firstIndex { $0.name.isSameIdentifier(as: column) }
    }
}

/// The collations every SQLite has.
package enum Collation {
    package static let binary = "BINARY"

    package static func isBuiltIn(_ name: String) -> Bool {
        ["BINARY", "NOCASE", "RTRIM"].contains(name.uppercased())
    }
}
