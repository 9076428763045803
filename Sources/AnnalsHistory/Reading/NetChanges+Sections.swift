import AnnalsSchema
import AnnalsSQLite
import GRDB

extension NetChanges {
    /// The parts of a transaction in the currently tracked tables, parents' tables first.
    package func parts(of transaction: Int64) throws -> [Part] {
        try parts(of: sections(of: transaction))
    }

    /// What the triggers wrote after the newest transaction: writes of other programs that are not recorded yet.
    package func unrecordedParts() throws -> [Part] {
        try parts(
            of: UnrecordedRange.fetchAll(db).compactMap { table in
                table.newest > table.recorded ? Section(layout: table.id, first: table.recorded + 1, last: table.newest) : nil
            })
    }

    /// The sections of a transaction in the order of their column lists.
    package func sections(of transaction: Int64) throws -> [Section] {
        let statement = try spans.get()
        return try TransactionTable(db).lists(of: transaction).compactMap { id in
            statement.bind(1, id)
            statement.bind(2, transaction)
            defer { statement.reset() }
            guard try statement.step() else { return nil }
            let section = try Section(layout: id, first: statement.number(0), last: statement.number(1))
            guard section.first <= section.last else { throw Corruption(OwnTables.spans) }
            return section
        }
    }

    package func parts(of sections: [Section]) throws -> [Part] {
        var parts: [Part] = []
        for section in sections {
            guard let entry = try translation(section.layout)?.entry else { continue }
            if let index = parts.firstIndex(where: { $0.entry.id == entry.id }) {
                parts[index].sections.append(section)
            } else {
                parts.append(Part(entry: entry, sections: [section]))
            }
        }
        guard parts.count > 1 else { return parts }
        func order(_ part: Part) -> Int { tables.order[part.entry.definition.name] ?? .max }
        return parts.enumerated().sorted { (order($0.element), $0.offset) < (order($1.element), $1.offset) }.map(\.element)
    }
}

extension NetChange {
    package func translated(by translation: LayoutTranslation) -> NetChange {
        var change = NetChange(
            old: old.map(translation.translate), new: new.map(translation.translate), leftOut: leftOut.compactMap(translation.columnIndex),
            oldRowid: oldRowid, newRowid: newRowid)
        change.time = time
        return change
    }
}

extension RawChange {
    /// - Parameter distance: added to the ids, because each column list has its own ids.
    package func translated(by translation: LayoutTranslation, movedBy distance: Int64) -> RawChange {
        var change = RawChange(
            id: id + distance, old: old.map(translation.translate), new: new.map(translation.translate),
            leftOut: leftOut.compactMap(translation.columnIndex), oldRowid: oldRowid, newRowid: newRowid,
            precedes: precedes.map { $0 + distance })
        change.time = time
        return change
    }
}
