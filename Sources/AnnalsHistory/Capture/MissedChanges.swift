import AnnalsCore
import AnnalsSchema
import GRDB

/// Raw changes of one column list that were written when the changes were recorded, and their places among the others.
///
/// The triggers miss rows that a REPLACE removed and rows that a program's own triggers rewrote. `Evictions` and
/// `TriggerRewriteCheck` add these changes after all others. If the changes belong to several writers, each added change must be
/// in the span of the writer that caused it.
package struct MissedChanges {
    private struct Missed {
        var id: Int64
        /// The raw change in whose span it belongs.
        var place: Int64
    }

    private var all: [Missed] = []
    /// Whether the changes belong to several writers. Otherwise places are not needed.
    let areDivided: Bool

    package init(areDivided: Bool = false) {
        self.areDivided = areDivided
    }

    /// The id of the first added change.
    var first: Int64? { all.first?.id }

    /// - Parameter place: a raw change of the same writer.
    mutating func add(_ id: Int64, at place: Int64) {
        if areDivided { all.append(Missed(id: id, place: place)) }
    }

    /// Moves each added change to the end of the span that holds its place, and returns the spans with their new ids.
    ///
    /// - Parameter spans: Adjacent spans of the column list in their order, without the added changes.
    func placed(in spans: [TransactionRecorder.Span], _ db: Database) throws -> [TransactionRecorder.Span] {
        guard let last = spans.last, !all.isEmpty else { return spans }
        var added = [[Int64]](repeating: [], count: spans.count)
        for missed in all {
            // A place after the last change is the last one.
            let index = spans.partitioningIndex { $0.ids.upperBound >= missed.place }
            added[min(index, spans.count - 1)].append(missed.id)
        }
        let placed = zip(spans, added).reduce(into: [TransactionRecorder.Span]()) { placed, pair in
            let first = (placed.last?.ids.upperBound ?? pair.0.ids.lowerBound - 1) + 1
            let count = pair.0.ids.count + pair.1.count
            placed.append(TransactionRecorder.Span(table: pair.0.table, ids: first...(first + Int64(count) - 1)))
        }
        guard !added.dropLast().allSatisfy(\.isEmpty) else { return placed }
        let table = StoreSchema.changesTable(last.table)
        // The added deletes refer to changes by their ids; see `RawChange.precedes`.
        let refer = try db.makeStatement(sql: "UPDATE main.\(table) SET m0 = m0 + ? WHERE id = ?")
        let references = try Row.fetchAll(
            db, sql: "SELECT id, m0 FROM main.\(table) WHERE id > ? AND op = 3 AND typeof(m0) = 'integer'", arguments: [last.ids.upperBound]
        )
        for row in references {
            let (id, next): (Int64, Int64) = (row[0], row[1])
            let index = spans.partitioningIndex { $0.ids.upperBound >= next }
            guard spans.indices.contains(index) else { continue }
            try refer.execute(arguments: [placed[index].ids.lowerBound - spans[index].ids.lowerBound, id])
        }
        // The ids are negative until all are moved, because two rows must never have the same id.
        let forget = try db.makeStatement(sql: "UPDATE main.\(table) SET m0 = NULL, at = NULL WHERE id = ? AND op = 3 AND m0 > ?")
        let move = try db.makeStatement(sql: "UPDATE main.\(table) SET id = -(id + ?) WHERE id BETWEEN ? AND ?")
        for (index, span) in spans.enumerated() {
            let new = placed[index].ids
            if new.lowerBound > span.ids.lowerBound {
                try move.execute(arguments: [new.lowerBound - span.ids.lowerBound, span.ids.lowerBound, span.ids.upperBound])
            }
            let end = new.upperBound - Int64(added[index].count)
            for (offset, id) in added[index].enumerated() {
                // The change that it precedes may be another writer's.
                try forget.execute(arguments: [id, new.upperBound])
                try move.execute(arguments: [end + Int64(offset) + 1 - id, id, id])
            }
        }
        // In the order of their new ids. SQLite fills a page if rows are appended, and leaves half of it empty otherwise.
        if let list = try TrackedTable.fetch(db, id: last.table) {
            let columns = StoreSchema.changesColumns(list.columns.count, byRowid: list.key.isByRowid).dropFirst().joined(separator: ", ")
            try db.execute(
                sql: """
                    INSERT INTO main.\(table)(id, \(columns)) SELECT -id, \(columns) FROM main.\(table) WHERE id < 0 ORDER BY id DESC;
                    DELETE FROM main.\(table) WHERE id < 0
                    """)
        }
        return placed
    }
}
