import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// The rows of a raw change as short hashes: the row before and the row after.
///
/// Each row has one hash. Two rows rarely share a hash, and that is harmless.
struct RowHashes {
    package var old: UInt32?
    package var new: UInt32?

    var isMove: Bool { old != nil && new != nil && old != new }
}

/// Reads the raw changes of one column list, for loops over very many changes.
final class RawChangeScan {
    package let layout: TableLayout
    package let rule: IdentityRule
    private let isByRowid: Bool
    private let columns: RawChangeColumns
    private let rows: PreparedStatement
    private let readsTimes: Bool
    /// Reads only the keys; created when first needed.
    private lazy var keys = Result { try PreparedStatement(db, "\(columns.select(layout.key)) ORDER BY id") }
    /// Reads the rows with their times, without the deletes that precede another change; created when first needed.
    private lazy var timedRows = Result {
        try PreparedStatement(db, "\(columns.select(withTime: true)) AND NOT (\(Self.isPlaced)) ORDER BY id")
    }
    /// Reads the deletes that precede another change, in the order of the changes that they precede; created when first needed.
    private lazy var placedRows = Result {
        try PreparedStatement(db, "\(columns.select(withTime: true)) AND \(Self.isPlaced) ORDER BY m0, id")
    }
    /// Reads the rows sorted by key; created when first needed.
    private lazy var sortedRows = Result { try makeSortedRows() }
    private let db: Database

    /// - Parameter readsTimes: whether the changes have the times at which they were written.
    init(_ db: Database, _ table: TrackedTable, readsTimes: Bool = false) throws {
        self.readsTimes = readsTimes
        layout = table.layout
        rule = table.identityRule
        isByRowid = table.key.isByRowid
        columns = RawChangeColumns(table)
        self.db = db
        rows = try PreparedStatement(db, "\(columns.select(withTime: readsTimes)) ORDER BY id")
    }

    /// SQLite sorts on disk what does not fit into its cache.
    private func makeSortedRows() throws -> PreparedStatement {
        func changed(_ old: String, _ new: String) -> String {
            "CASE op WHEN \(StoreSchema.Operation.insert.rawValue) THEN \(new) ELSE \(old) END"
        }
        let parts = layout.key.map { changed("o\($0)", "n\($0)") }
        // Only its rowid identifies a row whose key holds NULL.
        let isKeyless = isByRowid ? parts.map { "\($0) IS NULL" }.joined(separator: " OR ") : "0"
        var terms = isByRowid ? ["CASE WHEN \(isKeyless) THEN \(changed("ro", "rn")) END"] : []
        terms += zip(parts, rule.collations).map { part, collation in
            "CASE WHEN \(isKeyless) THEN NULL ELSE \(part) END COLLATE \(Collation.isBuiltIn(collation) ? collation : Collation.binary)"
        }
        return try PreparedStatement(db, "\(columns.select(withTime: readsTimes)) ORDER BY \(terms.joined(separator: ", ")), id")
    }

    private func change(_ operation: StoreSchema.Operation, _ rows: PreparedStatement) -> RawChange {
        var change = columns.change(operation, rows)
        if readsTimes { change.time = columns.milliseconds(rows) }
        return change
    }

    /// Visits all raw changes of the section in the order in which they were written.
    package func forEach(_ section: NetChanges.Section, _ visit: (RawChange) throws -> Void) throws {
        try forEach(rows, section) { try visit(change($0, rows)) }
    }

    /// Visits all raw changes of the section with their times, in the order in which they happened.
    ///
    /// A delete that a REPLACE made was written last. It comes directly before the change that it precedes.
    /// SQLite sorts such deletes, on disk if there are many, so memory does not grow with the section.
    func forEachStep(_ section: NetChanges.Section, _ visit: (RawChange, Date?) throws -> Void) throws {
        let placed = try placedRows.get()
        placed.bind(1, section.first)
        placed.bind(2, section.last)
        defer { placed.reset() }
        func nextPlaced() throws -> (RawChange, Date?)? {
            try placed.step() ? (columns.change(.delete, placed), columns.time(placed)) : nil
        }
        var waiting = try nextPlaced()
        func passPlaced(upTo id: Int64) throws {
            while let (delete, time) = waiting, let next = delete.precedes, next <= id {
                try visit(delete, time)
                waiting = try nextPlaced()
            }
        }
        let rows = try timedRows.get()
        try forEach(rows, section) { operation in
            let (change, time) = (columns.change(operation, rows), columns.time(rows))
            try passPlaced(upTo: change.id)
            try visit(change, time)
        }
        try passPlaced(upTo: .max)
    }

    /// A condition: the raw change is a delete that precedes another change.
    private static let isPlaced = "op IS \(StoreSchema.Operation.delete.rawValue) AND typeof(m0) = 'integer'"

    /// The same as `forEach`, with the rows' hashes.
    func forEachHashed(_ section: NetChanges.Section, _ visit: (RawChange, RowHashes) throws -> Void) throws {
        try forEach(rows, section) { try visit(change($0, rows), hashes($0, rows)) }
    }

    /// Visits the changes that match `isWanted`. The changes of each row follow one another in the order in which they were
    /// written. Values of other changes are not read.
    func forEachSorted(
        _ section: NetChanges.Section, where isWanted: (RowHashes) -> Bool, _ visit: (RawChange) throws -> Void
    ) throws {
        let rows = try sortedRows.get()
        try forEach(rows, section) { if isWanted(hashes($0, rows)) { try visit(change($0, rows)) } }
    }

    /// Visits only the hashes of the changed rows.
    func forEachHashes(_ section: NetChanges.Section, _ visit: (RowHashes) -> Void) throws {
        let keys = try keys.get()
        try forEach(keys, section) { operation in
            visit(hashes(operation, keys, oldKey: { columns.firstOld + $0 }, newKey: { columns.firstOld + layout.key.count + $0 }))
        }
    }

    private func forEach(
        _ statement: PreparedStatement, _ section: NetChanges.Section, _ body: (StoreSchema.Operation) throws -> Void
    ) throws {
        statement.bind(1, section.first)
        statement.bind(2, section.last)
        defer { statement.reset() }
        while try statement.step() {
            guard let operation = StoreSchema.Operation(rawValue: statement.integer(RawChangeColumns.operation)) else {
                throw Corruption("a raw change of \(layout.name)")
            }
            // Such a delete happened before the section begins, if the section is the end of a transaction.
            if operation == .delete, !statement.isNull(columns.firstMask), statement.integer(columns.firstMask) < section.first { continue }
            try body(operation)
        }
    }

    private func hashes(_ operation: StoreSchema.Operation, _ rows: PreparedStatement) -> RowHashes {
        hashes(operation, rows, oldKey: { columns.firstOld + layout.key[$0] }, newKey: { columns.firstNew + layout.key[$0] })
    }

    /// `oldKey` and `newKey` return the column that has a part of the key.
    private func hashes(
        _ operation: StoreSchema.Operation, _ statement: PreparedStatement, oldKey: (Int) -> Int, newKey: (Int) -> Int
    ) -> RowHashes {
        var hashes = RowHashes()
        if operation != .insert { hashes.old = hash(statement, RawChangeColumns.oldRowid, oldKey) }
        if operation != .delete { hashes.new = hash(statement, RawChangeColumns.newRowid, newKey) }
        return hashes
    }

    /// Follows `IdentityRule`: rows that are equal by it have one hash.
    private func hash(_ statement: PreparedStatement, _ rowid: Int, _ column: (Int) -> Int) -> UInt32 {
        var hasher = Hasher()
        for part in layout.key.indices {
            let column = column(part)
            if isByRowid, statement.isNull(column) {
                var hasher = Hasher()
                hasher.combine(statement.integer(rowid))
                return UInt32(truncatingIfNeeded: hasher.finalize())
            }
            if rule.collations[part] == Collation.binary, statement.isTextOrBlob(column) {
                statement.hash(column, into: &hasher)
            } else {
                hasher.combine(IdentityRule.folded(statement.value(column), collation: rule.collations[part]))
            }
        }
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }
}
