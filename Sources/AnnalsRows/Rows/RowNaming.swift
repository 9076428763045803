package import AnnalsCore
package import AnnalsMerge
import AnnalsSchema

extension DeclaredTable {
    /// The primary key first, then the columns that the foreign keys of other tables refer to (`children`).
    func nameIndexes(_ rules: FootprintRules, children: [ParentReference]) -> [NameIndex] {
        var lists = [primaryKey.sorted()]
        for child in children {
            let columnIndexes = child.parentColumns.compactMap(columnIndex(of:)).sorted()
            if columnIndexes.count == child.parentColumns.count, !lists.contains(columnIndexes) { lists.append(columnIndexes) }
        }
        return lists.map { nameIndex($0, rules) }
    }

    /// The index over exactly these columns. If that index is coarse, the collations of the columns are used.
    func nameIndex(_ columnIndexes: [Int], _ rules: FootprintRules) -> NameIndex {
        let indexes = [rules.key] + rules.uniques.filter { !$0.isCoarse }
        if let index = indexes.first(where: { Set($0.columnIndexes) == Set(columnIndexes) }) {
            return NameIndex(table: name, parts: Array(zip(index.columnIndexes, index.columns)))
        }
        return NameIndex(table: name, parts: columnIndexes.map { ($0, footprintColumn($0, collation: columns[$0].collation)) })
    }
}

extension MergeTable {
    /// What merging needs of a tracked table.
    ///
    /// - Parameter children: the foreign keys of tracked tables that refer to it.
    convenience init(_ entry: TrackedTables.Entry, children: [ParentReference], isReferenced: Bool, _ tables: TrackedTables) {
        let definition = entry.definition
        let columns = zip(definition.columns, entry.first.columns).map { column, first in
            Column(name: column.name, canonicalName: first.name, isNotNull: column.isNotNull)
        }
        let references = entry.references.map { reference in
            Reference(
                columnIndexes: reference.columnIndexes, onDelete: DeleteAction(reference.onDelete), parent: ParentNaming(reference, tables),
                isDeclared: reference.isDeclared, condition: reference.condition)
        }
        self.init(
            name: definition.name, canonicalName: entry.first.name, columns: columns, primaryKey: definition.primaryKey,
            rowidAlias: definition.rowidAlias, candidateKeys: definition.nameIndexes(entry.rules, children: children),
            references: references, uniqueColumns: definition.uniqueColumnIndexes(entry.rules), isReferenced: isReferenced)
    }
}

extension MergeTable.DeleteAction {
    fileprivate init(_ action: DeclaredTable.ForeignKeyAction) {
        switch action {
        case .cascade: self = .cascade
        case .setNull: self = .setNull
        case .setDefault: self = .setDefault
        case .restrict, .noAction: self = .refuse
        }
    }
}

extension ParentNaming {
    fileprivate init?(_ reference: ParentReference, _ tables: TrackedTables) {
        guard let parent = tables.table(named: reference.parentTable) else { return nil }
        let parentIndexes = reference.parentColumns.compactMap(parent.definition.columnIndex(of:))
        guard parentIndexes.count == reference.columnIndexes.count else { return nil }
        let index = parent.definition.nameIndex(parentIndexes.sorted(), parent.rules)
        let columnIndexes = index.columnIndexes.compactMap { columnIndex in
            parentIndexes.firstIndex(of: columnIndex).map { reference.columnIndexes[$0] }
        }
        self.init(index: index, columnIndexes: columnIndexes)
    }
}

extension RowTable {
    /// All candidate keys of the row, the primary key first. A primary key that holds NULL is included.
    package func names(of row: [Value]) -> [CandidateKey] { mergeTable.names(of: row) }

    package func keyName(of row: [Value]) -> CandidateKey { mergeTable.keyName(of: row) }

    /// The candidate key of a primary key, given in the order of the primary key's columns.
    package func keyName(_ key: [Value]) -> CandidateKey { mergeTable.keyName(key) }

    package func parentName(_ reference: Int, in row: [Value]) -> CandidateKey? { mergeTable.parentName(reference, in: row) }

    /// The row image: the row with its candidate keys and those of its parents.
    package func side(_ row: [Value]) -> RowImage { mergeTable.image(of: row) }
}
