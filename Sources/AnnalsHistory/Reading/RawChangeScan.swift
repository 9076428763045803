import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
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
    private let maskCount: Int
    /// Indices of the columns that do not belong to the key.
    private let beside: [Int]
    private let firstMask: Int
    private let firstOld: Int
    private let firstNew: Int
    private let rows: PreparedStatement
    /// Reads only the keys; created when first needed.
    private lazy var keys = Result { try PreparedStatement(db, "\(select(layout.key)) ORDER BY id") }
    /// Reads the rows sorted by key; created when first needed.
    private lazy var sortedRows = Result { try makeSortedRows() }
    private let db: Database
    private let head: [String]
    private let changes: String

    /// The columns before the values.
    private enum Head {
        static let id = 0
        static let operation = 1
        static let oldRowid = 2
        static let newRowid = 3
    }

    init(_ db: Database, _ table: TrackedTable) throws {
        layout = table.layout
        rule = table.identityRule
        isByRowid = table.key.isByRowid
        maskCount = StoreSchema.maskCount(table.columns.count)
        beside = table.columns.indices.filter { !table.key.places.contains($0) }
        let identity = ["id", "op"] + (isByRowid ? ["ro", "rn"] : [])
        firstMask = identity.count
        head = identity + (0..<maskCount).map { "m\($0)" }
        firstOld = head.count
        firstNew = head.count + layout.columns.count
        changes = StoreSchema.changesTable(table.id)
        self.db = db
        rows = try PreparedStatement(db, "\(Self.select(layout.columns.indices, head, changes)) ORDER BY id")
    }

    private func select(_ places: some Sequence<Int>) -> String {
        Self.select(places, head, changes)
    }

    private static func select(_ places: some Sequence<Int>, _ head: [String], _ changes: String) -> String {
        let columns = head + places.map { "o\($0)" } + places.map { "n\($0)" }
        return "SELECT \(columns.joined(separator: ", ")) FROM main.\(changes) WHERE id BETWEEN ?1 AND ?2"
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
        return try PreparedStatement(db, "\(select(layout.columns.indices)) ORDER BY \(terms.joined(separator: ", ")), id")
    }

    /// Visits all raw changes of the section in the order in which they were written.
    package func forEach(_ section: NetChanges.Section, _ visit: (RawChange) throws -> Void) throws {
        try forEach(rows, section) { try visit(change($0, rows)) }
    }

    /// The same, with the rows' hashes.
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
            visit(hashes(operation, keys, oldKey: { firstOld + $0 }, newKey: { firstOld + layout.key.count + $0 }))
        }
    }

    private func forEach(
        _ statement: PreparedStatement, _ section: NetChanges.Section, _ body: (StoreSchema.Operation) throws -> Void
    ) throws {
        statement.bind(1, section.first)
        statement.bind(2, section.last)
        defer { statement.reset() }
        while try statement.step() {
            guard let operation = StoreSchema.Operation(rawValue: statement.integer(Head.operation)) else {
                throw Corruption("a raw change of \(layout.name)")
            }
            try body(operation)
        }
    }

    private func change(_ operation: StoreSchema.Operation, _ rows: PreparedStatement) -> RawChange {
        var change = RawChange(id: rows.integer(Head.id), old: nil, new: nil)
        let count = layout.columns.count
        if operation != .insert {
            change.old = rows.values(firstOld..<firstOld + count)
            if isByRowid { change.oldRowid = rows.integer(Head.oldRowid) }
        }
        if operation != .delete {
            change.new = change.old.map { updated($0, rows) } ?? rows.values(firstNew..<firstNew + count)
            if let old = change.old { change.leftOut = leftOut(old, rows) }
            if isByRowid { change.newRowid = rows.integer(Head.newRowid) }
        } else if !rows.isNull(firstMask) {
            // A delete needs no mask, so the mask holds the id of the change that it precedes.
            change.precedes = rows.integer(firstMask)
        }
        return change
    }

    /// An update holds only the changed values of the new row. The masks say which columns changed.
    private func updated(_ old: [Value], _ rows: PreparedStatement) -> [Value] {
        var row = old
        for mask in 0..<maskCount {
            var bits = UInt64(bitPattern: rows.integer(firstMask + mask))
            while bits != 0 {
                let place = mask * StoreSchema.columnsPerMask + bits.trailingZeroBitCount
                if row.indices.contains(place) { row[place] = rows.value(firstNew + place) }
                bits &= bits - 1
            }
        }
        return row
    }

    /// Indices of the values that an update left out. A column that an update did not change is NULL in the new row, or 1 if its
    /// old value was left out.
    private func leftOut(_ old: [Value], _ rows: PreparedStatement) -> [Int] {
        var places: [Int] = []
        for place in beside where old[place].isNull && !rows.isNull(firstNew + place) {
            if !StoreSchema.isMarked(place, mask: { rows.integer(firstMask + $0) }) { places.append(place) }
        }
        return places
    }

    private func hashes(_ operation: StoreSchema.Operation, _ rows: PreparedStatement) -> RowHashes {
        hashes(operation, rows, oldKey: { firstOld + layout.key[$0] }, newKey: { firstNew + layout.key[$0] })
    }

    /// `oldKey` and `newKey` return the column that has a part of the key.
    private func hashes(
        _ operation: StoreSchema.Operation, _ statement: PreparedStatement, oldKey: (Int) -> Int, newKey: (Int) -> Int
    ) -> RowHashes {
        var hashes = RowHashes()
        if operation != .insert { hashes.old = hash(statement, Head.oldRowid, oldKey) }
        if operation != .delete { hashes.new = hash(statement, Head.newRowid, newKey) }
        return hashes
    }

    /// Follows `IdentityRule`: rows that are equal by it have one hash.
    private func hash(_ statement: PreparedStatement, _ rowid: Int, _ column: (Int) -> Int) -> UInt32 {
        var hasher = Hasher()
        for part in layout.key.indices {
            let place = column(part)
            if isByRowid, statement.isNull(place) {
                var hasher = Hasher()
                hasher.combine(statement.integer(rowid))
                return UInt32(truncatingIfNeeded: hasher.finalize())
            }
            if rule.collations[part] == Collation.binary, statement.isTextOrBlob(place) {
                statement.hash(place, into: &hasher)
            } else {
                hasher.combine(IdentityRule.folded(statement.value(place), collation: rule.collations[part]))
            }
        }
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }
}
