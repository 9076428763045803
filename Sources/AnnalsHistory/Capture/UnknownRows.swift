import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The points of history at which the rows of some tables are not known.
///
/// They are unknown before a program wrote to a table without capture; see `Drift`. Other tables keep their history. And they are
/// unknown before a table with rows was tracked:
///
/// If a store with history begins to track a table that has rows, it records these rows as inserted. So every reader of history
/// gets them, and no token expires. But the table was not empty before, as history seems to say. So `replay`, `diff` and `restore`
/// refuse such a point. A table that was created after the last search for new tables did not exist at earlier points, which are
/// therefore known; see `TrackingRule`.
package struct UnknownRows: Codable, Hashable, Sendable {
    /// The id of the column list.
    package var list: Int64
    /// The newest transaction at which the table did not exist; nil if that is not known.
    package var absent: Int64?
    /// The transaction that recorded the rows as inserted.
    package var recorded: Int64

    /// The context of the transaction that records the rows.
    package static let context = "rows from before tracking"

    package init(list: Int64, absent: Int64?, recorded: Int64) {
        (self.list, self.absent, self.recorded) = (list, absent, recorded)
    }

    /// Throws `Corruption`.
    package static func load(_ db: Database) throws -> [UnknownRows] {
        guard let text = try StoreSchema.text(.unknownRows, db) else { return [] }
        guard let entries = try? JSONDecoder().decode([UnknownRows].self, from: Data(text.utf8)) else {
            throw Corruption("\(OwnTables.meta).\(StoreSchema.Meta.unknownRows.rawValue)")
        }
        return entries
    }

    package static func add(_ entries: [UnknownRows], _ db: Database) throws {
        try save(load(db).filter { old in !entries.contains { $0.list == old.list } } + entries, db)
    }

    /// To be called when the column lists are deleted.
    package static func forget(_ lists: [Int64], _ db: Database) throws {
        guard let entries = try StoreError.unlessCorrupt({ try load(db) }) else { return try save([], db) }
        let rest = entries.filter { !lists.contains($0.list) }
        if rest.count < entries.count { try save(rest, db) }
    }

    private static func save(_ entries: [UnknownRows], _ db: Database) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let text = try entries.isEmpty ? nil : String(decoding: encoder.encode(entries.sorted { $0.list < $1.list }), as: UTF8.self)
        try StoreSchema.set(.unknownRows, to: text, db)
    }

    private func holds(_ point: HistoryPoint) -> Bool {
        guard point.token.number < recorded else { return false }
        return absent.map { (point.dividedTransaction ?? point.token.number) > $0 } ?? true
    }

    /// - Parameters:
    ///   - tables: the current names of the tables whose rows are wanted; nil for all, also those that were dropped since.
    ///   - leftOut: the names of tables whose rows are not wanted.
    /// - Throws: `AnnalsError` with code `tokenExpired` if the rows of one of them are not known at a point.
    package static func check(
        _ points: [HistoryPoint], tables: [String]?, leavingOut leftOut: [String] = [], operation: String, _ db: Database
    ) throws {
        let lists = try TrackedTable.fetchAll(db).filter { list in !leftOut.contains(where: list.name.isSameIdentifier) }
        let tracked = Set(lists.filter { $0.state == .tracked }.map(\.name.foldedIdentifier))
        let wanted = tables.map { Set($0.map(\.foldedIdentifier)) }
        for list in lists {
            guard let gap = list.gap, points.contains(where: { $0.token.number < gap }) else { continue }
            guard wanted?.contains(list.name.foldedIdentifier) ?? true else { continue }
            let isTracked = tracked.contains(list.name.foldedIdentifier)
            let why = isTracked ? "it was rebuilt, or written without capture" : "it was dropped"
            throw AnnalsError(
                .tokenExpired, operation: operation, "the rows of \(list.name) are not known there: \(why), before transaction \(gap)",
                hint: hint(gap, list.name, operation), commandHint: commandHint(gap, list.name, operation))
        }
        let entries = try load(db).filter { entry in points.contains(where: entry.holds) }
        guard !entries.isEmpty else { return }
        let names = Dictionary(lists.map { ($0.id, $0.name) }, uniquingKeysWith: { $1 })
        for entry in entries {
            guard let name = names[entry.list], (wanted ?? tracked).contains(name.foldedIdentifier) else { continue }
            throw AnnalsError(
                .tokenExpired, operation: operation,
                "the rows of \(name) are not known there: it had rows when it was tracked, in transaction \(entry.recorded)",
                hint: hint(entry.recorded, name, operation), commandHint: commandHint(entry.recorded, name, operation))
        }
    }

    private static func hint(_ number: Int64, _ table: String, _ operation: String) -> String {
        operation == "replay"
            ? "Use a point from transaction \(number) on, or leave the table out"
            : "Name other tables, or a point from transaction \(number) on"
    }

    private static func commandHint(_ number: Int64, _ table: String, _ operation: String) -> String? {
        operation == "replay" ? "Use a point from transaction \(number) on, or leave the table empty with --without \(table)" : nil
    }

    /// The tracked tables to which a program wrote without capture, each with the transaction before which it did. Purged history does
    /// not count.
    package static func incomplete(_ db: Database, after horizon: Int64) throws -> [(table: String, before: Int64)] {
        let lists = try TrackedTable.fetchAll(db)
        let tracked = Set(lists.filter { $0.state == .tracked }.map(\.name.foldedIdentifier))
        let gaps = lists.compactMap { list in list.gap.map { (list.name, $0) } }
        let newest = Dictionary(gaps.filter { $1 > horizon && tracked.contains($0.foldedIdentifier) }, uniquingKeysWith: max)
        return newest.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Column lists whose rows in a transaction are only those that the table had already.
    package static func lists(recordedIn number: Int64, _ db: Database) throws -> Set<Int64> {
        Set(try load(db).filter { $0.recorded == number }.map(\.list))
    }

    /// - Throws: `AnnalsError` with code `rowNotFound` if the transaction only recorded rows that tables had already.
    package static func checkRevert(of number: Int64, _ db: Database) throws {
        let recorded = try lists(recordedIn: number, db)
        guard !recorded.isEmpty, try recorded.isSuperset(of: TransactionTable(db).lists(of: number)) else { return }
        throw AnnalsError(
            .rowNotFound, operation: "revert", "transaction \(number) recorded rows that a table had when it was tracked",
            hint: "It changed no row, so there is nothing to revert")
    }
}
