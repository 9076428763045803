package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
package import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// Applies the body of one transaction to the rows, verbatim, forward or backward.
///
/// Every old value is compared with the stored one by storage class and bytes before it is overwritten, and an inserted key must
/// be free. Otherwise the rows have diverged from the log. This is an error and is never corrected silently (law 3).
///
/// There are two passes, because one transaction may swap unique values. The first pass removes the rows of deletes, moves and
/// updates of unique columns. The second pass writes rows. Foreign keys are off, and the session checks them at the end.
package struct EntryApplier {
    package enum Direction {
        /// As in the entry.
        case forward
        /// The inverse. An outbox transaction is undone in this way.
        case backward
    }

    package let session: MergeSession
    package let direction: Direction
    /// The position of the entry, for the error message; nil for a transaction that is not in the log.
    package let position: Position?
    /// Called for each change with the row before and after, if the caller records write marks.
    package var observe: ((RowTable, _ old: [Value]?, _ new: [Value]?, RowMark?, _ age: Int64) -> Void)?
    /// The time of a transaction of another replica, for history; nil if the rows are written now.
    var time: HybridTime?
    /// Called for each change with the row before and after. Only the columns that footprints need are set: keys, unique columns and
    /// references.
    var certify: ((RowTable, _ old: [Value]?, _ new: [Value]?) throws -> Void)?

    package init(
        session: MergeSession, direction: Direction, position: Position?,
        observe: ((RowTable, [Value]?, [Value]?, RowMark?, Int64) -> Void)? = nil
    ) {
        self.session = session
        self.direction = direction
        self.position = position
        self.observe = observe
    }

    /// Applies a transaction in parts. Each pass reads all parts.
    @discardableResult
    package func apply(_ content: TransactionParts) throws -> Int {
        session.untrackedChildren.beginStep()
        defer { session.author.clear() }
        var displaced: [Displaced] = []
        // Outbox transactions have only the columns of this store.
        let kept = direction == .forward ? session.kept.map(DeferredChanges.init) : nil
        try pass(content, kept, kept?.takeOut) { table, change, bytes in
            if let row = try takeOut(table, change, bytes) { displaced.append(row) }
        }
        for row in displaced { try putBack(row) }
        return try pass(content, kept, kept?.put) { table, change, bytes in try write(table, change, bytes) }
    }

    private typealias Visitor = (TableInUse, WireChange, UnsafeRawBufferPointer) throws -> Void
    private typealias KeptVisitor = (TableLayout, WireChange, UnsafeRawBufferPointer) throws -> Void

    /// A table of the body, with the author's columns mapped to the local columns.
    private struct TableInUse {
        let table: RowTable
        /// The local indexes of the author's columns, without the columns that this store lacks.
        let columnIndexes: [Int]
        let layout: LayoutInUse
    }

    /// A row that the first pass removed and that is written again with other values.
    private struct Displaced {
        let table: RowTable
        let old: [Value]
        let new: [Value]
        let rowid: Int64?
        let mark: RowMark?
        let age: Int64
    }

    @discardableResult
    private func pass(
        _ content: TransactionParts, _ kept: DeferredChanges?, _ keep: KeptVisitor?, _ visit: Visitor
    ) throws -> Int {
        var count = 0
        try content.forEach { part in count += try pass(part, kept, keep, visit) }
        return count
    }

    private func pass(
        _ part: TransactionParts.Part, _ kept: DeferredChanges?, _ keep: KeptVisitor?, _ visit: Visitor
    ) throws -> Int {
        var reader = part.reader
        var change = WireChange()
        var count = 0
        while let reference = try reader.nextTable() {
            guard let layout = part.layouts[reference] else { throw MergeError.unknownLayout(reference) }
            let keep = kept?.missingSchema.touches(layout.name) ?? false ? keep : nil
            let isElsewhere = try kept?.missingSchema.has(table: layout.name) ?? false || session.ignores(layout.name)
            let inUse = try isElsewhere ? nil : tableInUse(layout)
            let key = try LayoutKey(layout, inUse?.table.first ?? session.spaceTable(layout.name))
            try reader.bytes.withUnsafeBytes { bytes in
                while try reader.nextChange(into: &change) {
                    try check(change, layout, inUse)
                    if let time { session.author.set(time, age: change.age) }
                    if direction == .forward { try key.check(change) }
                    try keep?(layout, change, bytes)
                    if let inUse { try visit(inUse, inUse.layout.isSame ? change : inUse.layout.translated(change), bytes) }
                    count += 1
                }
            }
        }
        return count
    }

    private func tableInUse(_ layout: TableLayout) throws -> TableInUse {
        let table = try session.table(first: layout.name)
        let inUse = try session.layoutInUse(layout, in: table)
        return TableInUse(table: table, columnIndexes: inUse.columnIndexes, layout: inUse)
    }

    /// Counts of the author are not trusted. A short row, or a column beyond the layout, is a corrupt entry.
    private func check(_ change: WireChange, _ layout: TableLayout, _ inUse: TableInUse?) throws {
        let columns = layout.columns.count
        let isWhole =
            switch change.kind {
            case .insert: change.new.count == columns
            case .delete: change.old.count == columns
            case .update:
                change.key.count == inUse?.table.definition.primaryKey.count ?? layout.key.count && (change.columns.last ?? 0) < columns
            }
        guard isWhole else { throw WireError.badLength }
    }

    /// The key of a table as the author describes it. Whole rows, and rows that change their key, must have a complete key. Otherwise each
    /// replica would choose another key.
    private struct LayoutKey {
        private let key: [Int]
        /// The column number of an INTEGER PRIMARY KEY. Every row has an integer there.
        private let integer: Int?

        init(_ layout: TableLayout, _ table: DeclaredTable?) throws {
            key = layout.key
            guard Set(layout.columns.map(\.foldedIdentifier)).count == layout.columns.count else { throw WireError.badValue("columns") }
            guard let table else { integer = nil; return }
            let names = table.primaryKey.map { table.columns[$0].name }
            guard names.count == key.count, zip(key, names).allSatisfy({ layout.columns[$0].isSameIdentifier(as: $1) }) else {
                throw WireError.badValue("key")
            }
            integer = table.rowidAlias == nil ? nil : key.first
        }

        func check(_ change: WireChange) throws {
            switch change.kind {
            case .delete: return
            case .insert: for columnIndex in key { try check(change.new[columnIndex], at: columnIndex) }
            case .update:
                for (part, columnIndex) in key.enumerated() { try check(change.key[part], at: columnIndex) }
                for (index, column) in change.columns.enumerated() where key.contains(column) { try check(change.new[index], at: column) }
            }
        }

        private func check(_ value: WireValue, at columnIndex: Int) throws {
            switch value {
            case .null: throw WireError.badValue("key")
            case .integer: return
            case .real, .text, .blob: if columnIndex == integer { throw WireError.badValue("key") }
            }
        }
    }

    // MARK: First pass

    private func takeOut(_ inUse: TableInUse, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws -> Displaced? {
        let table = inUse.table
        switch (change.kind, direction) {
        case (.delete, .forward), (.insert, .backward):
            let values = direction == .forward ? change.old : change.new
            try deleteRow(inUse, values, bytes, change)
            return nil
        case (.update, _):
            let columnIndexes = change.columns.map { inUse.columnIndexes[$0] }
            guard columnIndexes.contains(where: table.uniqueColumnIndexes.contains) else { return nil }
            let old = try stored(inUse, change, bytes)
            var new = old
            let target = direction == .forward ? change.new : change.old
            for (columnIndex, value) in zip(columnIndexes, target) { new[columnIndex] = bytes.value(value) }
            let rowid = try table.remove(table.key(of: old))
            return Displaced(table: table, old: old, new: new, rowid: rowid, mark: change.mark, age: change.age)
        default:
            return nil
        }
    }

    private func deleteRow(
        _ inUse: TableInUse, _ values: [WireValue], _ bytes: UnsafeRawBufferPointer, _ change: WireChange
    ) throws {
        let table = inUse.table
        let key = localKey(inUse, values)
        guard let found = try table.find(key, in: bytes) else { throw try missing(table, key.map(bytes.value)) }
        for (index, columnIndex) in inUse.columnIndexes.enumerated()
        where !found.column(columnIndex, equals: values[index], in: bytes) && !inUse.layout.leftover.contains(columnIndex) {
            defer { found.reset() }
            let (stored, expected) = (found.value(columnIndex), bytes.value(values[index]))
            throw try differs(table, columnIndex, key.map(bytes.value), stored: stored, expected: expected)
        }
        if observe != nil || certify != nil || table.isReferenced {
            let old = found.values(0..<table.columnCount)
            observe?(table, old, nil, change.mark, change.age)
            try certify?(table, old, nil)
            session.checks.noteGone(table, old)
        }
        try table.delete(found, key: key, in: bytes)
    }

    /// The whole row of an update. The old values of the changed columns are compared.
    private func stored(_ inUse: TableInUse, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws -> [Value] {
        let table = inUse.table
        let key = currentKey(inUse, change)
        guard let found = try table.find(key, in: bytes) else { throw try missing(table, key.map(bytes.value)) }
        defer { found.reset() }
        try compare(inUse, change, found, bytes)
        return found.values(0..<table.columnCount)
    }

    private func compare(
        _ inUse: TableInUse, _ change: WireChange, _ found: PreparedStatement, _ bytes: UnsafeRawBufferPointer
    ) throws {
        let expected = direction == .forward ? change.old : change.new
        for (index, column) in change.columns.enumerated() {
            let columnIndex = inUse.columnIndexes[column]
            if found.column(columnIndex, equals: expected[index], in: bytes) || inUse.layout.leftover.contains(columnIndex) { continue }
            let key = currentKey(inUse, change).map(bytes.value)
            throw try differs(inUse.table, columnIndex, key, stored: found.value(columnIndex), expected: bytes.value(expected[index]))
        }
    }

    // MARK: Second pass

    private func putBack(_ row: Displaced) throws {
        if let time { session.author.set(time, age: row.age) }
        do {
            try row.table.restore(row.old, as: row.new, rowid: row.rowid)
        } catch let error as DatabaseError where Self.isRefusal(error) {
            throw try taken(row.table, row.table.key(of: row.new), error) { row.new }
        }
        observe?(row.table, row.old, row.new, row.mark, row.age)
        try certify?(row.table, row.old, row.new)
        session.noteHighestKey(row.table, row.new)
        try session.checks.noteChanged(row.table, old: row.old, new: row.new)
    }

    private func write(_ inUse: TableInUse, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws {
        let table = inUse.table
        switch (change.kind, direction) {
        case (.insert, .forward), (.delete, .backward):
            let values = direction == .forward ? change.new : change.old
            do {
                try table.insert(values, columnIndexes: inUse.columnIndexes, in: bytes, missing: inUse.layout.missing)
            } catch let error as DatabaseError where Self.isRefusal(error) {
                throw try taken(table, localKey(inUse, values).map(bytes.value), error) {
                    var row = [Value](repeating: .null, count: table.columnCount)
                    for (index, columnIndex) in inUse.columnIndexes.enumerated() { row[columnIndex] = bytes.value(values[index]) }
                    for (columnIndex, value) in inUse.layout.missing { row[columnIndex] = value }
                    return row
                }
            }
            if observe != nil || certify != nil || table.hasReferences || table.definition.rowidAlias != nil {
                var row = [Value](repeating: .null, count: table.columnCount)
                let isWhole = observe != nil || certify != nil && table.hasUniqueColumns
                for (index, columnIndex) in inUse.columnIndexes.enumerated() where isWhole || table.isNaming[columnIndex] {
                    row[columnIndex] = bytes.value(values[index])
                }
                for (columnIndex, value) in inUse.layout.missing { row[columnIndex] = value }
                observe?(table, nil, row, change.mark, change.age)
                try certify?(table, nil, row)
                try session.checks.noteNew(table, row)
                session.noteHighestKey(table, row)
            }
        case (.update, _):
            let columnIndexes = change.columns.map { inUse.columnIndexes[$0] }
            guard !columnIndexes.contains(where: table.uniqueColumnIndexes.contains) else { return }
            try updateInPlace(inUse, change, columnIndexes, bytes)
        default:
            return
        }
    }

    private func updateInPlace(
        _ inUse: TableInUse, _ change: WireChange, _ columnIndexes: [Int], _ bytes: UnsafeRawBufferPointer
    ) throws {
        let table = inUse.table
        guard let found = try table.find(change.key, in: bytes) else { throw try missing(table, change.key.map(bytes.value)) }
        do {
            try compare(inUse, change, found, bytes)
        } catch {
            found.reset()
            throw error
        }
        let target = direction == .forward ? change.new : change.old
        let touchesReferences = columnIndexes.contains(where: table.referenceColumnIndexes.contains)
        let old = observe != nil || touchesReferences ? found.values(0..<table.columnCount) : nil
        guard !columnIndexes.isEmpty else {
            // Only columns that this store lacks changed. This is still a change of the row.
            found.reset()
            if let old { observe?(table, old, old, change.mark, change.age) }
            try certifyKey(table, change.key.map(bytes.value))
            return
        }
        do {
            try table.update(found, key: change.key, columnIndexes: columnIndexes, new: target, in: bytes)
        } catch let error as DatabaseError where Self.isRefusal(error) {
            let key = currentKey(inUse, change).map(bytes.value)
            throw try taken(table, change.key.map(bytes.value), error) {
                var row = try table.row(key)
                for (columnIndex, value) in zip(columnIndexes, target) { row?[columnIndex] = bytes.value(value) }
                return row
            }
        }
        guard let old else { return try certifyKey(table, change.key.map(bytes.value)) }
        var new = old
        for (columnIndex, value) in zip(columnIndexes, target) { new[columnIndex] = bytes.value(value) }
        observe?(table, old, new, change.mark, change.age)
        try certify?(table, old, new)
        try session.checks.noteChanged(table, old: old, new: new)
    }

    /// For an update without unique columns and references, the footprint holds only the row. For a change that cannot be made, it must
    /// hold at least the row.
    private func certifyKey(_ table: RowTable, _ key: @autoclosure () -> [Value]) throws {
        guard let certify else { return }
        var row = [Value](repeating: .null, count: table.columnCount)
        for (columnIndex, value) in zip(table.definition.primaryKey, key()) { row[columnIndex] = value }
        try certify(table, row, row)
    }

    // MARK: Keys and errors

    /// The key of a whole row of the body, in the order of the local key.
    private func localKey(_ inUse: TableInUse, _ values: [WireValue]) -> [WireValue] {
        inUse.table.definition.primaryKey.map { columnIndex in
            inUse.columnIndexes.firstIndex(of: columnIndex).map { values[$0] } ?? .null
        }
    }

    /// The key of an update's row before this direction applies it.
    private func currentKey(_ inUse: TableInUse, _ change: WireChange) -> [WireValue] {
        guard direction == .backward else { return change.key }
        var key = change.key
        for (index, column) in change.columns.enumerated() {
            if let columnIndex = inUse.table.definition.primaryKey.firstIndex(of: inUse.columnIndexes[column]) {
                key[columnIndex] = change.new[index]
            }
        }
        return key
    }

    private func missing(_ table: RowTable, _ key: [Value]) throws -> MergeError {
        try certifyKey(table, key)
        return .diverged(Divergence(table: table.definition.name, key: key, position: position, kind: .missingRow))
    }

    private func differs(_ table: RowTable, _ columnIndex: Int, _ key: [Value], stored: Value, expected: Value) throws -> MergeError {
        try certifyKey(table, key)
        let column = table.definition.columns[columnIndex].name
        return .diverged(
            Divergence(
                table: table.definition.name, key: key, position: position,
                kind: .otherValue(column: column, stored: stored, expected: expected)))
    }

    /// SQLite has a separate result code for a value in an INTEGER PRIMARY KEY that is not an integer.
    private static func isRefusal(_ error: DatabaseError) -> Bool {
        error.resultCode == .SQLITE_CONSTRAINT || error.resultCode == .SQLITE_MISMATCH
    }

    /// - Parameter row: the row that cannot be written; nil if it is not known.
    private func taken(_ table: RowTable, _ key: [Value], _ error: DatabaseError, _ row: () throws -> [Value]?) throws -> any Error {
        try certifyKey(table, key)
        // A row with a key would be found.
        if error.violatesUniqueness, try !RowsWithNullKey.fetchAll(session.db, in: [table.definition]).isEmpty, let row = try row(),
            try UniqueHolders(session, table).collisions(of: row).isEmpty
        {
            return AnnalsError(
                .constraint, operation: "sync",
                "a row of \(table.name) cannot be written (\(error.message ?? "UNIQUE")), because of rows with NULL in their key",
                hint: "One of them has the value. Such rows are not synced. Give it a key, change it or delete it; nothing was changed")
        }
        return MergeError.diverged(
            Divergence(table: table.definition.name, key: key, position: position, kind: .refused(error.message ?? "constraint")))
    }
}
