package import AnnalsCore
package import AnnalsMerge
import AnnalsSchema

/// Makes the candidate key of the parent that a foreign key refers to.
package struct ParentNaming {
    package var index: NameIndex
    /// The child's columns, in the order of the index's columns.
    package var places: [Int]

    package func name(in child: [Value]) -> CandidateKey? {
        index.name(places.map { child[$0] })
    }
}

extension DeclaredTable {
    /// The primary key first, then the columns that the foreign keys of other tables refer to (`children`).
    func nameIndexes(_ rules: FootprintRules, children: [ParentReference]) -> [NameIndex] {
        var lists = [primaryKey.sorted()]
        for child in children {
            let places = child.parentColumns.compactMap(place(of:)).sorted()
            if places.count == child.parentColumns.count, !lists.contains(places) { lists.append(places) }
        }
        return lists.map { nameIndex($0, rules) }
    }

    /// The index over exactly these columns. If that index is coarse, the collations of the columns are used.
    func nameIndex(_ places: [Int], _ rules: FootprintRules) -> NameIndex {
        let indexes = [rules.key] + rules.uniques.filter { !$0.isCoarse }
        if let index = indexes.first(where: { Set($0.places) == Set(places) }) {
            return NameIndex(table: name, parts: Array(zip(index.places, index.columns)))
        }
        return NameIndex(table: name, parts: places.map { ($0, footprintColumn($0, collation: columns[$0].collation)) })
    }
}

extension RowTable {
    /// All candidate keys of the row, the primary key first. A primary key that holds NULL is included.
    package func names(of row: [Value]) -> [CandidateKey] {
        var names = [keyName(of: row)]
        for index in nameIndexes.dropFirst() {
            if let name = index.name(of: row) { names.append(name) }
        }
        return names
    }

    /// Whether both images have the same candidate keys. Values that only compare as equal count as different.
    package func haveSameNames(_ before: [Value], _ after: [Value]) -> Bool {
        namePlaces.allSatisfy { before[$0] == after[$0] }
    }

    package func keyName(of row: [Value]) -> CandidateKey {
        let index = nameIndexes[0]
        let values = zip(index.places, index.columns).map { CanonicalTuple.value(row[$0], in: $1) }
        return CandidateKey(table: name, places: index.places, values: values)
    }

    /// The candidate key of a primary key, given in the order of the primary key's columns.
    package func keyName(_ key: [Value]) -> CandidateKey {
        var row = [Value](repeating: .null, count: columnCount)
        for (place, value) in zip(definition.primaryKey, key) { row[place] = value }
        return keyName(of: row)
    }

    package func parentName(_ reference: Int, in row: [Value]) -> CandidateKey? {
        parents[reference]?.name(in: row)
    }

    /// The row image: the row with its candidate keys and those of its parents.
    package func side(_ row: [Value]) -> RowImage {
        RowImage(row: row, key: key(of: row), names: names(of: row), parents: references.indices.map { parentName($0, in: row) })
    }
}
