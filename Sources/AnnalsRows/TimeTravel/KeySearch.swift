import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// Searches a row's key in the raw changes of one layout of the table.
final class KeySearch {
    let translation: LayoutTranslation
    /// The id of the layout.
    let list: Int64
    /// The transaction that `newest` returned last.
    private(set) var lastFound: Int64?
    private let end: PreparedStatement
    private let change: PreparedStatement
    private let span: PreparedStatement
    private let raw: RawChangeReader
    private let db: Database

    /// The searches in all layouts of a table, newest first, and the transaction after which the table's history is complete.
    static func all(_ db: Database, of table: DeclaredTable, _ changes: NetChanges) throws -> (searches: [KeySearch], floor: Int64) {
        let layouts = try TrackedTable.fetchAll(db).filter { $0.name.isSameIdentifier(as: table.name) }
        let searches = try layouts.sorted { $0.id > $1.id }.compactMap { layout in
            try changes.translation(layout.id).flatMap { try KeySearch(db, layout, $0) }
        }
        return (searches, layouts.compactMap(\.gap).max() ?? 0)
    }

    /// nil if this layout does not have all columns of the key.
    init?(_ db: Database, _ layout: TrackedTable, _ translation: LayoutTranslation) throws {
        let definition = translation.entry.definition
        let columnIndexes = definition.primaryKey.compactMap { columnIndex in
            layout.columns.indices.first { translation.columnIndex($0) == columnIndex }
        }
        guard columnIndexes.count == definition.primaryKey.count else { return nil }
        self.translation = translation
        self.db = db
        list = layout.id
        raw = try RawChangeReader(db, layout)
        func isKey(_ prefix: String) -> String {
            let terms = zip(columnIndexes, definition.primaryKeyCollations).enumerated().map { index, part in
                "\(prefix)\(part.0) = ?\(index + 3) COLLATE \(Collation.isBuiltIn(part.1) ? part.1 : Collation.binary)"
            }
            return terms.joined(separator: " AND ")
        }
        end = try SpanTable(db).endBefore(of: layout.id)
        change = try PreparedStatement(
            db,
            """
            SELECT id FROM main.\(StoreSchema.changesTable(layout.id))
            WHERE id BETWEEN ?1 AND ?2 AND (\(isKey("o")) OR \(isKey("n"))) ORDER BY id DESC LIMIT 1
            """)
        span = try SpanTable(db).holding(of: layout.id)
    }

    func newest(_ key: [Value], before number: Int64) throws -> Int64? {
        end.bind(1, number)
        defer { end.reset() }
        guard try end.step() else { return nil }
        guard let id = try newestChange(key, upTo: end.integer(0)) else { return nil }
        span.bind(1, number)
        span.bind(2, id)
        defer { span.reset() }
        // A raw change belongs to no transaction if its transaction was purged.
        lastFound = try span.step() && span.integer(1) >= id ? span.integer(0) : nil
        return lastFound
    }

    /// Visits the raw changes of rows with a key, newest first, in the table's current columns. `visit` returns the key with which
    /// to continue, or nil to end.
    func forEachWrite(_ key: [Value], first: Int64, last: Int64, _ visit: (RawChange, Date?) throws -> [Value]?) throws {
        var (wanted, last) = (key, last)
        while let id = try newestChange(wanted, from: first, upTo: last) {
            last = id - 1
            guard let change = try raw.change(id)?.translated(by: translation, movedBy: 0) else { continue }
            guard let next = try visit(change, RawChangeReader.time(of: id, in: list, db)) else { return }
            wanted = next
        }
    }

    private func newestChange(_ key: [Value], from first: Int64 = 0, upTo last: Int64) throws -> Int64? {
        change.bind(1, first)
        change.bind(2, last)
        for (index, value) in key.enumerated() { change.bind(index + 3, value) }
        defer { change.reset() }
        return try change.step() ? change.integer(0) : nil
    }
}
