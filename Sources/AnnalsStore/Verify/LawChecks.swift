import AnnalsCore
import AnnalsWire
import GRDB

/// Tries laws 8 and 3 on a copy of the tracked rows.
struct LawChecks {
    private let db: Database
    private let tables: TrackedTables
    private let definitions: [TableDefinition]
    private let changes: NetChanges
    private let copy: HistoryCopy
    private let mismatches = Mismatches()
    private let progress: () throws -> Void

    /// Rows that were not what history says, by table: the first in words, and how many.
    private final class Mismatches {
        var byTable: [String: (first: CopyMismatch, count: Int)] = [:]

        func note(_ mismatch: CopyMismatch) {
            byTable[mismatch.table, default: (mismatch, 0)].count += 1
        }
    }

    init(_ db: Database, progress: @escaping () throws -> Void) throws {
        self.db = db
        self.progress = progress
        tables = try TrackedTables.load(db)
        definitions = tables.entries.map(\.definition)
        changes = try NetChanges(db, tables: tables)
        let mismatches = mismatches
        copy = HistoryCopy(db, schema: SchemaCopy.target, changes: changes) { mismatches.note($0) }
    }

    func run() throws -> [Finding] {
        try SchemaCopy(db: db, tables: definitions).makeTables()
        try copy.move(.back, through: changes.unsealedParts())
        var findings = take(.rows) { "\($0.message): history ends with other values" }
        findings += try replay()
        if findings.isEmpty, let state = try ReplicaState.load(db) { findings += try log(state) }
        return findings
    }

    /// What was noted since the last time, one finding a table.
    private func take(_ code: Finding.Code, _ say: (CopyMismatch) -> String) -> [Finding] {
        defer { mismatches.byTable = [:] }
        return mismatches.byTable.sorted { $0.key < $1.key }.map { table, found in
            Finding(code, say(found.first) + (found.count > 1 ? "; \(found.count) rows in all" : ""), table: table)
        }
    }

    // MARK: Law 8

    private func replay() throws -> [Finding] {
        let bounds = try HistoryBounds(db)
        let before = try StoreDigest.rows(db, schema: SchemaCopy.target, tables: definitions)
        for number in stride(from: bounds.latest.number, to: bounds.oldest.number, by: -1) {
            try copy.move(.back, through: number)
            try progress()
        }
        // Going back compares what history says a row became with what it is, and so the newest value with the store.
        let findings = take(.rows) { "\($0.message): the rows are not what history says they became" }
        guard findings.isEmpty else { return findings }
        for number in stride(from: bounds.oldest.number + 1, through: bounds.latest.number, by: 1) {
            try copy.move(.forth, through: number)
            try progress()
        }
        let forth = take(.replay) { "\($0.message), when history is replayed forth" }
        guard forth.isEmpty else { return forth }
        let after = try StoreDigest.rows(db, schema: SchemaCopy.target, tables: definitions)
        return before == after ? [] : [Finding(.replay, "history, replayed back and forth, does not end where it began")]
    }

    // MARK: Law 3

    /// The rows without the outbox are the log's, so every old value in the outbox must be found on the way back, and no
    /// row may be left without its parent there.
    private func log(_ state: ReplicaState) throws -> [Finding] {
        let before = try Set(FileChecks(db: db).foreignKeys().map(\.key))
        try undoWhatTheOutboxLacks()
        let sequences = try Int64.fetchAll(db, sql: "SELECT sequence FROM annals_outbox ORDER BY sequence DESC")
        for sequence in sequences {
            guard let row = try Outbox.row(db, sequence: sequence) else { continue }
            try copy.take(steps(back: row))
            try progress()
        }
        let findings = take(.log) { "\($0.message): the outbox does not lie on the log's rows" }
        guard findings.isEmpty else { return findings }
        return try FileChecks(db: db).foreignKeys(schema: SchemaCopy.target).filter { !before.contains($0.key) }.map { key, count in
            Finding(.log, "without the outbox, \(FileChecks.broken(key, count))", table: key.table)
        }
    }

    /// Own transactions are moved to the outbox when an exchange begins; those since then are in history alone.
    private func undoWhatTheOutboxLacks() throws {
        let moved = try Meta(db).integer(.outboxed) ?? 0
        let own = [TransactionOrigin.local, .external, .migration].map(\.rawValue)
        let numbers = try GRDB.Row.fetchCursor(
            db, sql: "SELECT number, origin FROM main.annals_transactions WHERE number > ? ORDER BY number DESC", arguments: [moved])
        while let row = try numbers.next(), own.contains(row["origin"]) {
            try copy.move(.back, through: row["number"] as Int64)
        }
    }

    /// An outbox transaction's changes, from after it to before it. Updates name only the columns they changed; the others
    /// are as they are in the copy.
    private func steps(back row: Outbox.Row) throws -> [HistoryCopy.Step] {
        var steps: [HistoryCopy.Step] = []
        for part in 0..<row.parts {
            for (reference, section) in try decodeChanges(Outbox.body(db, of: row.sequence, part: part, parts: row.parts)) {
                guard let translation = try changes.translation(Int64(reference)) else { continue }
                let table = copy.table(translation.entry.definition)
                for change in section {
                    switch change.change {
                    case .insert(let row): steps.append(.init(table: table, from: translation.translate(row), to: nil))
                    case .delete(let row): steps.append(.init(table: table, from: nil, to: translation.translate(row)))
                    case .update(let key, let columns):
                        if let step = try step(table, translation, key, columns) { steps.append(step) }
                    }
                }
            }
        }
        return steps
    }

    private func step(
        _ table: CopiedTable, _ translation: LayoutTranslation, _ key: [Value], _ columns: [ColumnChange]
    ) throws -> HistoryCopy.Step? {
        let changes = columns.compactMap { change in translation.place(change.column).map { ($0, change) } }
        var now = key
        for (place, change) in changes {
            if let part = table.definition.primaryKey.firstIndex(of: place) { now[part] = change.new }
        }
        guard let stored = try table.row(now) else {
            mismatches.note(CopyMismatch(table: table.definition.name, kind: .missing))
            return nil
        }
        var after = stored
        var before = stored
        for (place, change) in changes {
            after[place] = change.new
            before[place] = change.old
        }
        return .init(table: table, from: after, to: before)
    }
}
