import AnnalsCore
import AnnalsSchema
import GRDB

/// Joins the parts of several writers where a reference has no parent between them.
///
/// A replica sends each transaction on its own, and receivers refuse a transaction that leaves a row without its parent (law 4). A
/// program that writes with foreign keys off, as the `sqlite3` shell does by default, may insert a child in one transaction and the
/// parent in the next one. So a parent's row that appears in a later part, or that is missing from one part to a later one, joins
/// these parts into one. More parts may be joined than necessary, because the children's rows that did not change are not read.
struct CutReferences {
    private let db: Database
    private let tables: TrackedTables
    private let changes: NetChanges

    init(_ db: Database) throws {
        self.db = db
        tables = try TrackedTables.load(db)
        changes = try NetChanges(db, tables: tables)
    }

    /// The same parts, with those joined that must be one transaction.
    func joined(_ parts: [NamedWriters.Part]) throws -> [NamedWriters.Part] {
        let references = self.references()
        guard parts.count > 1, !references.isEmpty else { return parts }
        var runs = JoinedRuns(of: parts)
        for reference in references {
            // Parents that appear or disappear, with the parts in which they do.
            var events: [[Value]: [Event]] = [:]
            var count = 0
            func note(_ key: [Value], _ part: Int, appears: Bool) {
                count += 1
                if count <= HistoryLimits.parentsBetweenWriters { events[key, default: []].append(Event(part: part, appears: appears)) }
            }
            try forEachChange(of: reference.parent, in: parts) { part, change in
                let (old, new) = (change.old.map(reference.parentKey), change.new.map(reference.parentKey))
                guard old != new else { return }
                if let old { note(old, part, appears: false) }
                if let new { note(new, part, appears: true) }
            }
            if count > HistoryLimits.parentsBetweenWriters {
                runs.join(0, parts.count - 1)
                return parts.joined(runs, context: "no authors: too many changes between two recordings")
            }
            guard !events.isEmpty else { continue }
            // Unchanged children may refer to a parent that disappears and appears again.
            for list in events.values {
                for (event, next) in zip(list, list.dropFirst()) where !event.appears && next.appears {
                    runs.join(event.part, next.part)
                }
            }
            try forEachChange(of: reference.child, in: parts) { part, change in
                for (row, isGone) in [(change.old, true), (change.new, false)] {
                    guard let row, let key = reference.childKey(row), let list = events[key] else { continue }
                    if isGone {
                        // The child was without a parent since the parent disappeared.
                        if let gone = list[..<list.partitioningIndex { $0.part > part }].last, !gone.appears { runs.join(gone.part, part) }
                    } else if let made = list[list.partitioningIndex { $0.part > part }...].first, made.appears {
                        runs.join(part, made.part)
                    }
                }
            }
        }
        return parts.joined(runs, context: "no authors: a row and its parent were written in different transactions")
    }

    private struct Event {
        var part: Int
        /// false if it disappears.
        var appears: Bool
    }

    // MARK: References

    private struct Reference {
        var child: TrackedTables.Entry
        var columnIndexes: [Int]
        var parent: TrackedTables.Entry
        var parentColumnIndexes: [Int]

        func parentKey(_ row: [Value]) -> [Value] { parentColumnIndexes.map { Self.comparable(row[$0]) } }

        /// nil if the child refers to nothing.
        func childKey(_ row: [Value]) -> [Value]? {
            let key = columnIndexes.map { Self.comparable(row[$0]) }
            return key.contains(.null) ? nil : key
        }

        /// Values that SQLite may compare as equal, because of a collation or an affinity, are equal.
        private static func comparable(_ value: Value) -> Value {
            switch value {
            case .text(let text):
                guard let string = text.string?.lowercased() else { return value }
                let trimmed = string.reversed().drop { $0 == " " }.reversed()
                return Double(String(trimmed)).map(Value.real) ?? .text(String(trimmed))
            case .integer(let integer): return .real(Double(integer))
            default: return value
            }
        }
    }

    private func references() -> [Reference] {
        tables.entries.flatMap { child in
            child.references.compactMap { reference -> Reference? in
                guard let parent = tables.table(named: reference.parentTable) else { return nil }
                let columnIndexes = reference.parentColumns.compactMap(parent.definition.columnIndex)
                guard columnIndexes.count == reference.columnIndexes.count else { return nil }
                return Reference(child: child, columnIndexes: reference.columnIndexes, parent: parent, parentColumnIndexes: columnIndexes)
            }
        }
    }

    /// Visits the net changes of a table in each part. Only the rows at the end of a part count.
    private func forEachChange(
        of entry: TrackedTables.Entry, in parts: [NamedWriters.Part], _ visit: (_ part: Int, NetChange) throws -> Void
    ) throws {
        for (index, part) in parts.enumerated() {
            for span in part.spans where span.table == entry.id {
                let section = NetChanges.Section(layout: span.table, first: span.ids.lowerBound, last: span.ids.upperBound)
                try changes.forEachRow(in: section) { try visit(index, $0) }
            }
        }
    }
}
