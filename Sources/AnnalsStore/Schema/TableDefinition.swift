public import AnnalsCore

/// A table as its schema declares it: what capture, apply and footprints need to know.
///
/// Columns are meant by their place among the stored columns, as they are in changes and on the wire.
public struct TableDefinition: Hashable, Codable, Sendable {
    /// The name as the schema spells it.
    public var name: String
    /// Stored columns in the table's order; generated ones are left out.
    public var columns: [Column]
    public var generatedColumns: [GeneratedColumn]
    /// Places of the primary key's columns, in the key's order; empty when there is none.
    public var primaryKey: [Int]
    /// The collation by which the key's index compares each of its columns.
    public var primaryKeyCollations: [String]
    /// The place of the INTEGER PRIMARY KEY, which is the rowid under another name.
    public var rowidAlias: Int?
    public var isAutoincrement: Bool
    public var isWithoutRowid: Bool
    public var isStrict: Bool
    public var kind: Kind
    /// UNIQUE constraints and unique indexes, the primary key's own left out, by name.
    public var uniqueIndexes: [UniqueIndex]
    public var foreignKeys: [ForeignKey]
    /// The expressions of CHECK constraints, as they are written, with single spaces.
    public var checks: [String] = []
    /// A digest of everything declared, the table's name left out: another shape means another declaration.
    public var shape: String

    public enum Kind: String, Hashable, Codable, Sendable {
        case table, view, virtual, shadow
    }

    public struct Column: Hashable, Codable, Sendable {
        public var name: String
        public var declaredType: String
        public var affinity: Affinity
        /// The collation by which the column compares: BINARY, NOCASE, RTRIM or a program's own.
        public var collation: String
        public var isNotNull: Bool
        public var hasDefault: Bool
        /// The default's expression as SQL, nil when there is none.
        public var defaultSQL: String?
    }

    public struct GeneratedColumn: Hashable, Codable, Sendable {
        public enum Kind: String, Hashable, Codable, Sendable { case virtual, stored }
        public var name: String
        public var kind: Kind
        public var collation: String
        /// Its expression as SQL over the stored and VIRTUAL columns; nil when the statement could not be understood.
        public var expression: String?
    }

    public struct UniqueIndex: Hashable, Codable, Sendable {
        public var name: String
        public var columns: [IndexColumn]
        public var isPartial: Bool
        /// Made by a UNIQUE constraint of the table rather than by CREATE INDEX.
        public var isConstraint: Bool
        /// The CREATE INDEX statement; nil for a constraint's.
        public var sql: String?

        public var hasExpression: Bool { columns.contains { $0.name == nil } }
        public var hasCustomCollation: Bool { columns.contains { !Collation.isBuiltIn($0.collation) } }
        /// Its tuples cannot be told from a row's values alone (MERGE, rule 9).
        public var isCoarse: Bool { isPartial || hasExpression || hasCustomCollation }
        /// Places of its columns; nil as soon as one is generated or an expression.
        public var places: [Int]? {
            let places = columns.compactMap(\.place)
            return places.count == columns.count ? places : nil
        }
    }

    public struct IndexColumn: Hashable, Codable, Sendable {
        /// nil for an expression.
        public var name: String?
        /// nil for an expression or a generated column.
        public var place: Int?
        public var collation: String
    }

    public struct ForeignKey: Hashable, Codable, Sendable {
        public var columns: [String]
        /// Places of the child's columns; nil for a generated one.
        public var places: [Int?]
        /// The parent's name as its own declaration spells it, or as this one does when there is no such table.
        public var parentTable: String
        /// The parent's columns, its primary key where the declaration names none. Empty when there is no parent.
        public var parentColumns: [String]
        public var parentExists: Bool
        public var onDelete: ForeignKeyAction
        public var onUpdate: ForeignKeyAction
        public var match: String
    }

    public enum ForeignKeyAction: String, Hashable, Codable, Sendable, CaseIterable {
        case noAction = "NO ACTION"
        case restrict = "RESTRICT"
        case setNull = "SET NULL"
        case setDefault = "SET DEFAULT"
        case cascade = "CASCADE"
    }

    public var isVirtual: Bool { kind == .virtual }

    /// A row can exist whose key holds NULL: SQLite allows it outside WITHOUT ROWID tables unless a key column says
    /// NOT NULL. Such rows are captured by rowid and stay local.
    public var keyMayBeNull: Bool {
        !isWithoutRowid && rowidAlias == nil && primaryKey.contains { !columns[$0].isNotNull }
    }

    public var layout: TableLayout {
        TableLayout(name: name, columns: columns.map(\.name), key: primaryKey)
    }

    /// The place of a stored column by its name, which SQLite compares without regard to ASCII case.
    public func place(of column: String) -> Int? {
        columns.firstIndex { $0.name.isSameIdentifier(as: column) }
    }
}

/// The collations every SQLite has.
public enum Collation {
    public static let binary = "BINARY"

    public static func isBuiltIn(_ name: String) -> Bool {
        ["BINARY", "NOCASE", "RTRIM"].contains(name.uppercased())
    }
}

extension String {
    /// SQLite's comparison of names: A–Z and a–z are the same, everything else by its bytes.
    public func isSameIdentifier(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8) { asciiLowercased($0) == asciiLowercased($1) }
    }

    /// The form under which equal names are equal strings.
    public var foldedIdentifier: String {
        String(decoding: utf8.map(asciiLowercased), as: UTF8.self)
    }
}

private func asciiLowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}
