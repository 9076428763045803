import AnnalsCore
package import AnnalsMerge
import AnnalsSQLite

/// A foreign key as the merge uses it: its column indices and its parent.
///
/// Keys over a generated column, and keys to a table that does not exist, are left out, because the merge can do nothing with them.
package struct ParentReference {
    package var columnIndexes: [Int]
    package var parentTable: String
    package var parentColumns: [String]
    package var onDelete: DeclaredTable.ForeignKeyAction
    package var onUpdate: DeclaredTable.ForeignKeyAction
    /// Whether the schema declares it. If it does not, SQLite does not enforce it.
    package let isDeclared: Bool
    /// The rows that have the reference; nil for all rows. Only a reference that is not declared has one.
    package var condition: RowCondition?

    /// A reference that the schema does not declare.
    init(
        columnIndexes: [Int], parentTable: String, parentColumns: [String], onDelete: DeclaredTable.ForeignKeyAction,
        onUpdate: DeclaredTable.ForeignKeyAction, condition: RowCondition?
    ) {
        self.columnIndexes = columnIndexes
        self.parentTable = parentTable
        self.parentColumns = parentColumns
        self.onDelete = onDelete
        self.onUpdate = onUpdate
        self.condition = condition
        isDeclared = false
    }

    package init?(_ key: DeclaredTable.ForeignKey) {
        let columnIndexes = key.columnIndexes.compactMap { $0 }
        guard key.parentExists, columnIndexes.count == key.columnIndexes.count, columnIndexes.count == key.parentColumns.count else {
            return nil
        }
        self.columnIndexes = columnIndexes
        parentTable = key.parentTable
        parentColumns = key.parentColumns
        onDelete = key.onDelete
        onUpdate = key.onUpdate
        isDeclared = true
    }

    /// Its columns and those of its condition.
    package var usedColumnIndexes: [Int] { condition.map { columnIndexes + $0.columnIndexes } ?? columnIndexes }
}

extension DeclaredTable {
    package var references: [ParentReference] { foreignKeys.compactMap(ParentReference.init) }

    /// The table's rules for footprints, with these references. `parent` returns the definition of a table by name.
    ///
    /// The columns of an index are sorted by name. So two replicas that declare a UNIQUE constraint with another order of columns
    /// compute the same hashes.
    package func footprintRules(references: [ParentReference], parent: (String) -> DeclaredTable?) -> FootprintRules {
        let key = footprintIndex(primaryKey.enumerated().map { ($1, primaryKeyCollations[$0]) }, isCoarse: false)
        var uniques = uniqueIndexes.map { index -> FootprintRules.Index in
            guard !index.isCoarse, let columnIndexes = index.columnIndexes else { return coarseIndex(index) }
            return footprintIndex(Array(zip(columnIndexes, index.columns.map(\.collation))), isCoarse: false)
        }
        if !primaryKeyCollations.allSatisfy(Collation.isBuiltIn) {
            // Keys with other bytes may be equal in the collation of a program.
            let names = primaryKey.map { columns[$0].name.foldedIdentifier }.sorted()
            uniques.append(
                FootprintRules.Index(
                    columnIndexes: [], columns: names.map { FootprintRules.Column(name: $0, affinity: .blob) }, isCoarse: true,
                    coarseColumns: primaryKey))
        }
        let references = references.compactMap { reference -> FootprintRules.Reference? in
            guard let parent = parent(reference.parentTable) else { return nil }
            return parent.footprintReference(reference)
        }
        return FootprintRules(table: name.foldedIdentifier, key: key, uniques: uniques, references: references)
    }

    private func footprintIndex(_ parts: [(columnIndex: Int, collation: String)], isCoarse: Bool) -> FootprintRules.Index {
        let sorted = parts.sorted { columns[$0.columnIndex].name.foldedIdentifier < columns[$1.columnIndex].name.foldedIdentifier }
        return FootprintRules.Index(
            columnIndexes: sorted.map(\.columnIndex), columns: sorted.map { footprintColumn($0.columnIndex, collation: $0.collation) },
            isCoarse: isCoarse)
    }

    private func coarseIndex(_ index: UniqueIndex) -> FootprintRules.Index {
        let names = index.columns.map { $0.name?.foldedIdentifier ?? "" }.sorted()
        let isWholeRow = index.isPartial || index.columnIndexes == nil
        return FootprintRules.Index(
            columnIndexes: [], columns: names.map { FootprintRules.Column(name: $0, affinity: .blob) }, isCoarse: true,
            coarseColumns: isWholeRow ? nil : index.columnIndexes)
    }

    /// A child's reference to this table.
    private func footprintReference(_ reference: ParentReference) -> FootprintRules.Reference? {
        let columnIndexes = reference.parentColumns.compactMap(columnIndex(of:))
        guard columnIndexes.count == reference.parentColumns.count else { return nil }
        let collations = indexCollations(of: columnIndexes)
        let order = columnIndexes.indices.sorted {
            columns[columnIndexes[$0]].name.foldedIdentifier < columns[columnIndexes[$1]].name.foldedIdentifier
        }
        return FootprintRules.Reference(
            columnIndexes: order.map { reference.columnIndexes[$0] }, parentTable: name.foldedIdentifier,
            parentColumns: order.map { footprintColumn(columnIndexes[$0], collation: collations?[columnIndexes[$0]] ?? "BINARY") },
            isCoarse: collations == nil,
            condition: reference.condition)
    }

    /// The collations of the unique index over exactly these columns; nil if the index is coarse or does not exist.
    private func indexCollations(of columnIndexes: [Int]) -> [Int: String]? {
        if Set(columnIndexes) == Set(primaryKey) {
            guard primaryKeyCollations.allSatisfy(Collation.isBuiltIn) else { return nil }
            return Dictionary(uniqueKeysWithValues: zip(primaryKey, primaryKeyCollations))
        }
        for index in uniqueIndexes where !index.isCoarse {
            guard let own = index.columnIndexes, Set(own) == Set(columnIndexes) else { continue }
            return Dictionary(zip(own, index.columns.map(\.collation)), uniquingKeysWith: { first, _ in first })
        }
        return nil
    }

    package func footprintColumn(_ columnIndex: Int, collation: String) -> FootprintRules.Column {
        let affinity: FootprintRules.Affinity =
            switch columns[columnIndex].affinity {
            case .integer: .integer
            case .text: .text
            case .real: .real
            case .numeric: .numeric
            case .blob, .any: .blob
            }
        let collation: FootprintRules.Collation =
            switch collation.uppercased() {
            case "NOCASE": .noCase
            case "RTRIM": .rTrim
            default: .binary
            }
        return FootprintRules.Column(name: columns[columnIndex].name.foldedIdentifier, affinity: affinity, collation: collation)
    }
}
