/// What of a table's declared constraints a footprint must know. Made from a schema, free of SQLite.
package struct FootprintRules: Sendable {
    /// How a column's values are compared and stored, as far as equal tuples must hash alike.
    package struct Column: Hashable, Sendable {
        package var name: String
        package var affinity: Affinity
        package var collation: Collation

        package init(name: String, affinity: Affinity, collation: Collation = .binary) {
            self.name = name
            self.affinity = affinity
            self.collation = collation
        }
    }

    /// The primary key or a UNIQUE index.
    package struct Index: Hashable, Sendable {
        /// Places of its columns in the row, and the collation each has in this index.
        package var places: [Int]
        package var columns: [Column]
        /// A partial, expression or custom-collation index: one hash stands for all of it.
        package var isCoarse: Bool
        /// The columns whose change touches a coarse index; nil for any column.
        package var coarseColumns: [Int]?

        package init(places: [Int], columns: [Column], isCoarse: Bool = false, coarseColumns: [Int]? = nil) {
            self.places = places
            self.columns = columns
            self.isCoarse = isCoarse
            self.coarseColumns = coarseColumns
        }
    }

    /// A reference to the key or a unique index of a parent.
    package struct Reference: Hashable, Sendable {
        package var places: [Int]
        package var parentTable: String
        /// The parent's columns as its index compares them, in the order of `places`.
        package var parentColumns: [Column]
        /// The parent's index is coarse.
        package var isCoarse: Bool

        package init(places: [Int], parentTable: String, parentColumns: [Column], isCoarse: Bool = false) {
            self.places = places
            self.parentTable = parentTable
            self.parentColumns = parentColumns
            self.isCoarse = isCoarse
        }
    }

    /// SQLite's column affinities.
    package enum Affinity: Hashable, Sendable {
        case integer, real, numeric, text, blob
    }

    /// The collations SQLite itself has; others make an index coarse.
    package enum Collation: Hashable, Sendable {
        case binary, noCase, rTrim
    }

    package var table: String
    package var key: Index
    package var uniques: [Index]
    package var references: [Reference]

    package init(table: String, key: Index, uniques: [Index], references: [Reference]) {
        self.table = table
        self.key = key
        self.uniques = uniques
        self.references = references
    }
}
