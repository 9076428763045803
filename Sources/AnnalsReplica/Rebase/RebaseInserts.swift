import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Inserts (merge rule 25): a free key is taken; an integer key that is taken gives way to the next number; any other key that
/// is taken means one row.
extension RebaseAttempt {
    func meetInsert(_ index: Int, _ table: RowTable, _ row: [Value]) {
        verdicts[index].asked = row.indices.map { AskedColumn($0, old: nil, new: row[$0]) }
        addNew(index, table, row)
    }

    /// Puts a new row into play; one that is set aside too, because others may call it.
    func addNew(_ index: Int, _ table: RowTable, _ row: [Value]) {
        var entry = RebasedRow(table: table, before: nil, after: row, cause: Cause(index))
        entry.mark = transaction.changes[index].mark
        rows.append(entry)
        let number = rows.count - 1
        verdicts[index].row = number
        ask(table.names(of: row), for: number)
        if let reason = decisions.setAside(index) { setInsertAside(index, reason) }
    }

    func setInsertAside(_ index: Int, _ reason: Reason) {
        verdicts[index].loss = reason
        guard let number = verdicts[index].row else { return }
        rows[number].after = nil
        rows[number].end = .setAside
    }

    /// Gives a row its number where another has the one it asks for.
    func numberInsert(_ index: Int) throws {
        guard let number = plainInsert(index) else { return }
        let table = rows[number].table
        guard rules(table).key == .renumber, let place = table.definition.rowidAlias, !table.referencePlaces.contains(place),
            var row = rows[number].after, let wanted = row[place].integer
        else { return }
        // A stored row that is set aside in the transaction's favour is another life still: its number is not free.
        let name = table.keyName(of: row)
        let isSetAside = found[name].map { rows[$0].end == .setAside } ?? false
        guard try isSetAside || occupant(of: row, in: table) != nil else { return }
        var tries = 0
        repeat {
            row[place] = .integer(try keyOfNoRow(index, table, wanted, tries))
            tries += 1
        } while try session.row(named: table.keyName(of: row), in: table) != nil
        verdicts[index].renumbered = (.integer(wanted), row[place])
        verdicts[index].asked[place].new = row[place]
        rows[number].after = row
    }

    /// The next number that no row ever had. Where a row had the last one of all, which any writer may give it, it is one of the upper
    /// half of the numbers, by digest: no row gives way for want of a number.
    private func keyOfNoRow(_ index: Int, _ table: RowTable, _ wanted: Int64, _ tries: Int) throws -> Int64 {
        let highest = max(highestKeys[table.first.name] ?? 0, wanted)
        if highest < .max {
            highestKeys[table.first.name] = highest + 1
            return highest + 1
        }
        guard tries < ReplicaLimits.scatteredKeys else { throw MergeError.unsettled(table: table.name) }
        let place = "number \(transaction.info.id) \(index) \(tries)"
        let digest = Digest.sha256(Array(place.utf8)[...])
        return digest.bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) } & .max | 1 << 62
    }

    /// Makes inserts one with the rows that have their keys, where the key is no reference.
    func joinByOwnKey(_ index: Int) throws {
        guard let number = plainInsert(index) else { return }
        let table = rows[number].table
        guard !table.definition.primaryKey.contains(where: table.referencePlaces.contains) else { return }
        try joinIfTaken(index, number)
    }

    /// The transaction's insert becomes an update of all columns without old values.
    func joinIfTaken(_ index: Int, _ number: Int) throws {
        let table = rows[number].table
        guard let row = rows[number].after, let stored = try occupant(of: row, in: table) else { return }
        let target = rowNumber(table, stored, nil, Cause(index))
        guard target != number else { return }
        rows[number].after = nil
        rows[number].end = .joined(target)
        ask(rows[number].asked, for: target)
        rows[number].asked = []
        verdicts[index].row = target
        verdicts[index].isJoined = true
        // Its key too, which may be spelled otherwise under the index's collation.
        verdicts[index].asked = verdicts[index].asked.map { AskedColumn($0.column, old: nil, new: row[$0.column], written: $0.written) }
        try mergeOwnColumns(index)
    }

    /// The number of the row that a plain insert makes, as long as it is to be made.
    private func plainInsert(_ index: Int) -> Int? {
        guard case .insert = transaction.changes[index].change, transaction.changes[index].mark == nil,
            let number = verdicts[index].row, rows[number].isNew
        else { return nil }
        return number
    }

    /// The row of the store with this row's key, unless the transaction makes room there.
    func occupant(of row: [Value], in table: RowTable) throws -> [Value]? {
        let name = table.keyName(of: row)
        if let number = found[name], rows[number].after.map({ table.keyName(of: $0) }) != name { return nil }
        return try session.row(named: name, in: table)
    }
}
