/// What of a table's declared constraints a footprint must know. Made from a schema, free of SQLite.
public struct FootprintRules: Sendable {
    /// How a column's values are compared and stored, as far as equal tuples must hash alike.
    public struct Column: Hashable, Sendable {
        public var name: String
        public var affinity: Affinity
        public var collation: Collation

        public init(name: String, affinity: Affinity, collation: Collation = .binary) {
            self.name = name
            self.affinity = affinity
            self.collation = collation
        }
    }

    /// The primary key or a UNIQUE index.
    public struct Index: Hashable, Sendable {
        /// Places of its columns in the row, and the collation each has in this index.
        public var places: [Int]
        public var columns: [Column]
        /// A partial, expression or custom-collation index: one hash stands for all of it.
        public var isCoarse: Bool
        /// The columns whose change touches a coarse index; nil for any column.
        public var coarseColumns: [Int]?

        public init(places: [Int], columns: [Column], isCoarse: Bool = false, coarseColumns: [Int]? = nil) {
            self.places = places
            self.columns = columns
            self.isCoarse = isCoarse
            self.coarseColumns = coarseColumns
        }
    }

    /// A reference to the key or a unique index of a parent.
    public struct Reference: Hashable, Sendable {
        public var places: [Int]
        public var parentTable: String
        /// The parent's columns as its index compares them, in the order of `places`.
        public var parentColumns: [Column]
        /// The parent's index is coarse.
        public var isCoarse: Bool

        public init(places: [Int], parentTable: String, parentColumns: [Column], isCoarse: Bool = false) {
            self.places = places
            self.parentTable = parentTable
            self.parentColumns = parentColumns
            self.isCoarse = isCoarse
        }
    }

    /// SQLite's column affinities.
    public enum Affinity: Hashable, Sendable {
        case integer, real, numeric, text, blob
    }

    /// The collations SQLite itself has; others make an index coarse.
    public enum Collation: Hashable, Sendable {
        case binary, noCase, rTrim
    }

    public var table: String
    public var key: Index
    public var uniques: [Index]
    public var references: [Reference]

    public init(table: String, key: Index, uniques: [Index], references: [Reference]) {
        self.table = table
        self.key = key
        self.uniques = uniques
        self.references = references
    }
}
