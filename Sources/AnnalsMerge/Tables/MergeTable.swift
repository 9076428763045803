package import AnnalsCore

/// A table as merging needs it: its candidate keys, its references, and which columns may be NULL. It has no types and
/// no SQL, so rules can be tested with tables that no schema declares.
package final class MergeTable: Sendable {
    package struct Column: Hashable, Sendable {
        package var name: String
        /// The name in the log.
        package var canonicalName: String
        package var isNotNull: Bool

        package init(name: String, canonicalName: String? = nil, isNotNull: Bool = false) {
            self.name = name
            self.canonicalName = canonicalName ?? name
            self.isNotNull = isNotNull
        }
    }

    package struct Reference: Sendable {
        package var columnIndexes: [Int]
        package var onDelete: DeleteAction
        /// How it names its parent. nil if the parent is not tracked.
        package var parent: ParentNaming?
        /// Whether the schema declares it. If it does not, a program may leave rows without a parent.
        package var isDeclared: Bool
        /// The rows that have the reference; nil for all rows.
        package var condition: RowCondition?

        package init(
            columnIndexes: [Int], onDelete: DeleteAction, parent: ParentNaming?, isDeclared: Bool = true, condition: RowCondition? = nil
        ) {
            self.columnIndexes = columnIndexes
            self.onDelete = onDelete
            self.parent = parent
            self.isDeclared = isDeclared
            self.condition = condition
        }

        /// Its columns and those of its condition.
        package var usedColumnIndexes: [Int] { condition.map { columnIndexes + $0.columnIndexes } ?? columnIndexes }
    }

    /// What a foreign key declares for the delete of a parent.
    package enum DeleteAction: Hashable, Sendable {
        case cascade, setNull, setDefault
        /// RESTRICT and NO ACTION: the parent must stay.
        case refuse
    }

    package let name: String
    /// The name in the log.
    package let canonicalName: String
    package let columns: [Column]
    /// The indexes of the primary key's columns, in the order of the key.
    package let primaryKey: [Int]
    /// The index of the INTEGER PRIMARY KEY.
    package let rowidAlias: Int?
    /// The primary key, then what other tables reference.
    package let candidateKeys: [NameIndex]
    package let references: [Reference]
    /// The columns whose change can violate the primary key or a UNIQUE index.
    package let uniqueColumns: Set<Int>
    /// Whether another table has a foreign key to this one.
    package let isReferenced: Bool
    /// The columns of its references and of their conditions.
    package let referenceColumns: Set<Int>
    /// The columns of its candidate keys.
    package let candidateKeyColumns: Set<Int>

    package init(
        name: String, canonicalName: String? = nil, columns: [Column], primaryKey: [Int], rowidAlias: Int? = nil,
        candidateKeys: [NameIndex], references: [Reference] = [], uniqueColumns: Set<Int>, isReferenced: Bool = false
    ) {
        precondition(!candidateKeys.isEmpty, "the primary key is a candidate key")
        self.name = name
        self.canonicalName = canonicalName ?? name
        self.columns = columns
        self.primaryKey = primaryKey
        self.rowidAlias = rowidAlias
        self.candidateKeys = candidateKeys
        self.references = references
        self.uniqueColumns = uniqueColumns
        self.isReferenced = isReferenced
        referenceColumns = Set(references.flatMap(\.usedColumnIndexes))
        candidateKeyColumns = Set(candidateKeys.flatMap(\.columnIndexes))
    }

    package func columnIndex(of name: String) -> Int? {
        let folded = name.foldedIdentifier
        return columns.firstIndex { $0.name.foldedIdentifier == folded }
    }

    package func columnIndex(ofCanonical name: String) -> Int? {
        let folded = name.foldedIdentifier
        return columns.firstIndex { $0.canonicalName.foldedIdentifier == folded }
    }

    // MARK: Keys of rows

    /// The values of the primary key, in the order of the key.
    package func key(of row: [Value]) -> [Value] {
        primaryKey.map { row[$0] }
    }

    /// The primary key as a candidate key. It is one even if a value is NULL.
    package func keyName(of row: [Value]) -> CandidateKey {
        let index = candidateKeys[0]
        let values = zip(index.columnIndexes, index.columns).map { CanonicalTuple.value(row[$0], in: $1) }
        return CandidateKey(table: name, columnIndexes: index.columnIndexes, values: values)
    }

    /// The same for the values of a key, in the order of the key.
    package func keyName(_ key: [Value]) -> CandidateKey {
        var row = [Value](repeating: .null, count: columns.count)
        for (columnIndex, value) in zip(primaryKey, key) { row[columnIndex] = value }
        return keyName(of: row)
    }

    /// All candidate keys of a row, the primary key first.
    package func names(of row: [Value]) -> [CandidateKey] {
        var names = [keyName(of: row)]
        for index in candidateKeys.dropFirst() {
            if let name = index.name(of: row) { names.append(name) }
        }
        return names
    }

    /// Whether both images of a row have the same values in all candidate keys.
    package func haveSameNames(_ before: [Value], _ after: [Value]) -> Bool {
        candidateKeyColumns.allSatisfy { before[$0] == after[$0] }
    }

    /// The candidate key of the parent to which a row's foreign key refers.
    package func parentName(_ reference: Int, in row: [Value]) -> CandidateKey? {
        let reference = references[reference]
        return reference.condition.map { $0.holds(row) } ?? true ? reference.parent?.name(in: row) : nil
    }

    package func image(of row: [Value]) -> RowImage {
        RowImage(row: row, key: key(of: row), names: names(of: row), parents: references.indices.map { parentName($0, in: row) })
    }
}

/// How a foreign key names its parent.
package struct ParentNaming: Sendable {
    package var index: NameIndex
    /// The child's columns in the order of the index's.
    package var columnIndexes: [Int]

    package init(index: NameIndex, columnIndexes: [Int]) {
        self.index = index
        self.columnIndexes = columnIndexes
    }

    package func name(in child: [Value]) -> CandidateKey? {
        index.name(columnIndexes.map { child[$0] })
    }
}
