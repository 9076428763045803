import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// The TEXT columns of a column list in which large values were seen. Updates leave out their large values if they do not change them.
///
/// Only these columns have the test in the update trigger, because it costs each program time that compiles an UPDATE. If the test is
/// missing, the trigger captures everything all the same, and stores the large value once more. So it is enough to look for large values
/// now and then: when the triggers are installed, and when changes are recorded. Columns of type BLOB or without a type always have it.
struct LargeColumns {
    private let db: Database
    private let id: Int64

    init(_ db: Database, _ id: Int64) {
        (self.db, self.id) = (db, id)
    }

    private var name: String { "large:\(id)" }

    /// The indexes of the columns; nil if nobody looked for large values yet.
    func load() throws -> Set<Int>? {
        try MetaTable(db).text(name).map { Set($0.split(separator: " ").compactMap { Int($0) }) }
    }

    private func save(_ columnIndexes: Set<Int>) throws {
        try MetaTable(db).set(name, columnIndexes.sorted().map(String.init).joined(separator: " "))
    }

    /// To be called when the list is removed, because its id can be used again.
    func forget() throws { try MetaTable(db).remove(name) }

    // MARK: When triggers are installed

    /// Looks for large values in some of the table's rows, if nobody looked yet.
    func prepare(_ table: DeclaredTable) throws {
        guard try load() == nil else { return }
        let candidates = table.textColumnIndexesThatMayBeLarge
        guard !candidates.isEmpty else { return try save([]) }
        let columns = candidates.map { SQL.quote(table.columns[$0].name) }
        let rows = "SELECT \(columns.joined(separator: ", ")) FROM main.\(SQL.quote(table.name))"
        var queries = ["\(rows) LIMIT \(Self.rowsLookedAt)"]
        if let rowid = table.rowidName { queries.append("\(rows) ORDER BY \(SQL.quote(rowid)) DESC LIMIT \(Self.rowsLookedAt)") }
        do {
            try save(Set(queries.flatMap { try large(in: candidates, columns, of: $0) }))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The order of the table needs a collation that only the program has. Tracking reports it if it prevents capture.
            try save([])
        }
    }

    /// The first rows of a table, and the last ones.
    private static let rowsLookedAt = 100

    // MARK: When changes are recorded

    /// Looks for large values in the newest raw changes. If a column gets its first one, the update triggers are created again.
    ///
    /// - Parameter ids: the raw changes that are recorded. A look every few changes is enough.
    static func look(_ db: Database, _ id: Int64, _ ids: ClosedRange<Int64>) throws {
        // Most ranges are of one change, so the range before counts too.
        let before = (ids.lowerBound - 1) / changesBetweenLooks
        guard ids.upperBound <= changesBetweenLooks || before != ids.upperBound / changesBetweenLooks,
            let list = try TrackedTable.fetch(db, id: id), list.state == .tracked
        else { return }
        let large = LargeColumns(db, id)
        let known = try large.load() ?? []
        let candidates = list.columns.indices.filter { !known.contains($0) && !list.key.columnIndexes.contains($0) }
        guard !candidates.isEmpty else { return }
        let first = max(ids.lowerBound, ids.upperBound - changesBetweenLooks + 1)
        let changes = "main.\(StoreSchema.changesTable(id)) WHERE id BETWEEN \(first) AND \(ids.upperBound)"
        let found = try Set(
            ["o", "n"].flatMap { side in
                let columns = candidates.map { "\(side)\($0)" }
                return try large.large(in: candidates, columns, of: "SELECT \(columns.joined(separator: ", ")) FROM \(changes)")
            })
        guard !found.isEmpty, let table = try SchemaReader(db).table(list.name), table.columns.count == list.columns.count else { return }
        let new = found.intersection(table.textColumnIndexesThatMayBeLarge)
        guard !new.isEmpty else { return }
        try large.save(known.union(new))
        try CaptureTriggers(db, table: table, id: id).reinstallAfterChange(db)
        try StoreSchema.noteSchemaVersion(db)
    }

    private static let changesBetweenLooks: Int64 = 16

    // MARK: Values

    /// The columns that have a large text in one of the rows of a query.
    private func large(in columnIndexes: [Int], _ columns: [String], of query: String) throws -> Set<Int> {
        let limit = try StoreSchema.largeValue(db, format: StoreSchema.format)
        let tests = columns.map { "max(typeof(\($0)) = 'text' AND length(\($0)) > \(limit))" }
        guard let row = try Row.fetchOne(db, sql: "SELECT \(tests.joined(separator: ", ")) FROM (\(query))") else { return [] }
        return Set(columnIndexes.indices.filter { (row[$0] as Bool?) == true }.map { columnIndexes[$0] })
    }
}
