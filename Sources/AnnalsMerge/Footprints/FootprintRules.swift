/// The declared constraints of a table that footprints need. They are made from a schema, and this type does not depend
/// on SQLite.
package struct FootprintRules: Sendable {
    /// How a column stores and compares values, as needed to give equal tuples equal hashes.
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
        /// The indexes of its columns in the row.
        package var columnIndexes: [Int]
        package var columns: [Column]
        /// Whether the index is partial, over an expression or with a custom collation. Then one hash represents the
        /// whole index.
        package var isCoarse: Bool
        /// The columns that affect a coarse index. nil if any column does.
        package var coarseColumns: [Int]?

        package init(columnIndexes: [Int], columns: [Column], isCoarse: Bool = false, coarseColumns: [Int]? = nil) {
            self.columnIndexes = columnIndexes
            self.columns = columns
            self.isCoarse = isCoarse
            self.coarseColumns = coarseColumns
        }
    }

    /// A reference to the key or a unique index of a parent.
    package struct Reference: Hashable, Sendable {
        package var columnIndexes: [Int]
        package var parentTable: String
        /// The parent's columns as the parent's index compares them, in the order of `columnIndexes`.
        package var parentColumns: [Column]
        /// Whether the parent's index is coarse.
        package var isCoarse: Bool
        /// The rows that have the reference; nil for all rows.
        package var condition: RowCondition?

        package init(
            columnIndexes: [Int], parentTable: String, parentColumns: [Column], isCoarse: Bool = false, condition: RowCondition? = nil
        ) {
            self.columnIndexes = columnIndexes
            self.parentTable = parentTable
            self.parentColumns = parentColumns
            self.isCoarse = isCoarse
            self.condition = condition
        }
    }

    /// SQLite's column affinities.
    package enum Affinity: Hashable, Sendable {
        case integer, real, numeric, text, blob
    }

    /// The built-in collations of SQLite. Any other collation makes an index coarse.
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
