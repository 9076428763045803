package import AnnalsCore
package import AnnalsMerge
import AnnalsSchema

/// How a foreign key calls its parent.
package struct ParentNaming {
    package var index: NameIndex
    /// The child's columns in the order of the index's.
    package var places: [Int]

    package func name(in child: [Value]) -> CandidateKey? {
        index.name(places.map { child[$0] })
    }
}

extension DeclaredTable {
    /// The key first, then what other tables reference, as `children`'s lists of this table's columns say.
    func nameIndexes(_ rules: FootprintRules, children: [ParentReference]) -> [NameIndex] {
        var lists = [primaryKey.sorted()]
        for child in children {
            let places = child.parentColumns.compactMap(place(of:)).sorted()
            if places.count == child.parentColumns.count, !lists.contains(places) { lists.append(places) }
        }
        return lists.map { nameIndex($0, rules) }
    }

    /// The index over exactly these columns; where it is coarse, by the columns' own collations.
    func nameIndex(_ places: [Int], _ rules: FootprintRules) -> NameIndex {
        let indexes = [rules.key] + rules.uniques.filter { !$0.isCoarse }
        if let index = indexes.first(where: { Set($0.places) == Set(places) }) {
            return NameIndex(table: name, parts: Array(zip(index.places, index.columns)))
        }
        return NameIndex(table: name, parts: places.map { ($0, footprintColumn($0, collation: columns[$0].collation)) })
    }
}

extension RowTable {
    /// Everything that the row can be called, its key first. A key that holds a NULL is a name too.
    package func names(of row: [Value]) -> [CandidateKey] {
        var names = [keyName(of: row)]
        for index in nameIndexes.dropFirst() {
            if let name = index.name(of: row) { names.append(name) }
        }
        return names
    }

    /// Whether both forms of a row are called the same, as far as that is plain to see.
    package func haveSameNames(_ before: [Value], _ after: [Value]) -> Bool {
        namePlaces.allSatisfy { before[$0] == after[$0] }
    }

    package func keyName(of row: [Value]) -> CandidateKey {
        let index = nameIndexes[0]
        let values = zip(index.places, index.columns).map { CanonicalTuple.value(row[$0], in: $1) }
        return CandidateKey(table: name, places: index.places, values: values)
    }

    /// The name made of a key in the key's own order.
    package func keyName(_ key: [Value]) -> CandidateKey {
        var row = [Value](repeating: .null, count: columnCount)
        for (place, value) in zip(definition.primaryKey, key) { row[place] = value }
        return keyName(of: row)
    }

    package func parentName(_ reference: Int, in row: [Value]) -> CandidateKey? {
        parents[reference]?.name(in: row)
    }

    /// The row with all that a merge knows it by.
    package func side(_ row: [Value]) -> RowImage {
        RowImage(row: row, key: key(of: row), names: names(of: row), parents: references.indices.map { parentName($0, in: row) })
    }
}
