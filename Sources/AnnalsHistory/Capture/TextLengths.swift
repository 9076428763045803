import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// How long the texts are that were seen in the TEXT columns of a column list.
///
/// What an update trigger does with a column costs each program time that opens the file or compiles an UPDATE. So the trigger compares
/// only columns with long texts, and tests only columns with large ones for their length:
///
/// | longest text | an update that does not change it stores |
/// |---|---|
/// | short | the text again |
/// | long: more than `SchemaLimits.longText` | a mark |
/// | large: more than `SchemaLimits.largeValue` | a mark, and leaves out the old text too |
///
/// A trigger that does not know of a longer text captures everything all the same, in more space. So it is enough to look at the lengths
/// now and then: when the triggers are installed, and when changes are recorded. Columns of type BLOB or without a type are always tested.
struct TextLengths: Equatable {
    /// The columns with a long text. Those with a large one are among them.
    private(set) var long: Set<Int> = []
    private(set) var large: Set<Int> = []

    mutating func note(largeValue columnIndex: Int) {
        long.insert(columnIndex)
        large.insert(columnIndex)
    }

    // MARK: Stored

    private static func name(_ id: Int64) -> String { "texts:\(id)" }

    /// nil if nobody looked yet.
    static func load(_ db: Database, _ id: Int64) throws -> Self? {
        try MetaTable(db).text(name(id)).map { text in
            var lengths = TextLengths()
            for word in text.split(separator: " ") {
                if let columnIndex = Int(word) {
                    lengths.long.insert(columnIndex)
                } else if let columnIndex = Int(word.dropLast()) {
                    lengths.note(largeValue: columnIndex)
                }
            }
            return lengths
        }
    }

    private func save(_ db: Database, _ id: Int64) throws {
        let words = long.sorted().map { large.contains($0) ? "\($0)L" : "\($0)" }
        try MetaTable(db).set(Self.name(id), words.joined(separator: " "))
    }

    /// To be called when the list is removed, because its id can be used again.
    static func forget(_ db: Database, _ id: Int64) throws { try MetaTable(db).remove(name(id)) }

    // MARK: When triggers are installed

    /// Looks at some of the table's rows, if nobody looked yet.
    static func prepare(_ db: Database, _ id: Int64, _ table: DeclaredTable) throws {
        guard try load(db, id) == nil else { return }
        let texts = table.columnIndexesOfTexts
        guard !texts.isEmpty else { return try TextLengths().save(db, id) }
        let columns = texts.map { SQL.quote(table.columns[$0].name) }
        let rows = "SELECT \(columns.joined(separator: ", ")) FROM main.\(SQL.quote(table.name))"
        var queries = ["\(rows) LIMIT \(rowsLookedAt)"]
        if let rowid = table.rowidName { queries.append("\(rows) ORDER BY \(SQL.quote(rowid)) DESC LIMIT \(rowsLookedAt)") }
        var lengths = TextLengths()
        do {
            for query in queries { try lengths.look(db, at: texts, columns, of: query) }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The order of the table needs a collation that only the program has. Tracking reports it if it prevents capture.
        }
        try lengths.save(db, id)
    }

    /// The first rows of a table, and the last ones.
    private static let rowsLookedAt = 100

    // MARK: When changes are recorded

    /// Looks at the newest raw changes. If a column gets its first long or large text, the update triggers are created again.
    ///
    /// - Parameter ids: the raw changes that are recorded. A look every few changes is enough.
    static func look(_ db: Database, _ id: Int64, _ ids: ClosedRange<Int64>) throws {
        // Most ranges are of one change, so the range before counts too.
        let before = (ids.lowerBound - 1) / changesBetweenLooks
        guard ids.upperBound <= changesBetweenLooks || before != ids.upperBound / changesBetweenLooks,
            let list = try TrackedTable.fetch(db, id: id), list.state == .tracked
        else { return }
        let known = try load(db, id) ?? TextLengths()
        let candidates = list.columns.indices.filter { !known.large.contains($0) && !list.key.columnIndexes.contains($0) }
        guard !candidates.isEmpty else { return }
        let first = max(ids.lowerBound, ids.upperBound - changesBetweenLooks + 1)
        let changes = "main.\(StoreSchema.changesTable(id)) WHERE id BETWEEN \(first) AND \(ids.upperBound)"
        var found = known
        for side in ["o", "n"] {
            let columns = candidates.map { "\(side)\($0)" }
            try found.look(db, at: candidates, columns, of: "SELECT \(columns.joined(separator: ", ")) FROM \(changes)")
        }
        guard found != known, let table = try SchemaReader(db).table(list.name), table.columns.count == list.columns.count else { return }
        let texts = Set(table.columnIndexesOfTexts)
        found.long.formIntersection(texts)
        found.large.formIntersection(texts)
        guard found != known else { return }
        try found.save(db, id)
        try CaptureTriggers(db, table: table, id: id).reinstallAfterChange(db)
        try StoreSchema.noteSchemaVersion(db)
    }

    private static let changesBetweenLooks: Int64 = 16

    // MARK: Values

    /// Notes the longest texts in the rows of a query.
    private mutating func look(_ db: Database, at columnIndexes: [Int], _ columns: [String], of query: String) throws {
        let limit = try StoreSchema.largeValue(db)
        let lengths = columns.map { "max(CASE typeof(\($0)) WHEN 'text' THEN length(\($0)) END)" }
        guard let row = try Row.fetchOne(db, sql: "SELECT \(lengths.joined(separator: ", ")) FROM (\(query))") else { return }
        for (index, columnIndex) in columnIndexes.enumerated() {
            let length = row[index] as Int? ?? 0
            if length > limit { note(largeValue: columnIndex) }
            if length > SchemaLimits.longText { long.insert(columnIndex) }
        }
    }
}
