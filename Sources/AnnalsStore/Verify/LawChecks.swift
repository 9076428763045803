import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsWire
import GRDB

/// Tests laws 8 and 3 on a copy of the tracked rows.
struct LawChecks {
    private let db: Database
    private let tables: TrackedTables
    private let definitions: [DeclaredTable]
    private let changes: NetChanges
    private let copy: HistoryCopy
    private let mismatches = Mismatches()
    private let progress: (_ done: Int64, _ of: Int64) throws -> Void

    /// Rows that differ from history, by table: the first mismatch and the number.
    private final class Mismatches {
        var byTable: [String: (first: CopyMismatch, count: Int)] = [:]

        func note(_ mismatch: CopyMismatch) {
            byTable[mismatch.table, default: (mismatch, 0)].count += 1
        }
    }

    init(_ db: Database, progress: @escaping (_ done: Int64, _ of: Int64) throws -> Void) throws {
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
        try copy.move(.back, through: changes.unrecordedParts())
        var findings = take(.rows) { "\($0.message): the newest values in history differ" }
        findings += try replay()
        if findings.isEmpty, let state = try ReplicaState.load(db) { findings += try log(state) }
        return findings
    }

    /// The mismatches since the last call, as one finding for each table.
    private func take(_ code: Finding.Code, _ say: (CopyMismatch) -> String) -> [Finding] {
        defer { mismatches.byTable = [:] }
        return mismatches.byTable.sorted { $0.key < $1.key }.map { table, found in
            Finding(code, say(found.first) + (found.count > 1 ? "; \(found.count) rows in all" : ""), table: table)
        }
    }

    // MARK: Law 8

    private func replay() throws -> [Finding] {
        let bounds = try HistoryBounds(db)
        let total = try 2 * SpanTable(db).changes(after: bounds.complete.number, upTo: bounds.latest.number)
        var done: Int64 = 0
        copy.progress = { [progress] count in
            done += count
            try progress(done, total)
        }
        defer { copy.progress = { _ in } }
        let before = try StoreDigest.rows(db, schema: SchemaCopy.target, tables: definitions)
        for number in stride(from: bounds.latest.number, to: bounds.complete.number, by: -1) {
            try copy.move(.back, through: number)
        }
        // Undoing compares the new values in history with the rows. So it also compares the newest values with the store.
        let findings = take(.rows) { "\($0.message): the rows differ from history" }
        guard findings.isEmpty else { return findings }
        for number in stride(from: bounds.complete.number + 1, through: bounds.latest.number, by: 1) {
            try copy.move(.forth, through: number)
        }
        let forth = take(.replay) { "\($0.message) when history is replayed forward" }
        guard forth.isEmpty else { return forth }
        let after = try StoreDigest.rows(db, schema: SchemaCopy.target, tables: definitions)
        return before == after ? [] : [Finding(.replay, "history, replayed backward and forward, ends with other rows")]
    }

    // MARK: Law 3

    /// The rows without the outbox are the log's rows. So every old value in the outbox must be found while it is undone, and no
    /// row may lose its parent.
    private func log(_ state: ReplicaState) throws -> [Finding] {
        // Rows without the outbox may violate constraints that the space does not have yet, so they do not fit into a copy.
        if let space = try SpaceSchema.load(db), let missing = try? MissingSchema.load(db),
            let comparison = try? SchemaComparison(TrackedTables.load(db), space, missingSchema: missing),
            !comparison.additions.tightened.isEmpty
        {
            return []
        }
        let before = try Set(FileChecks(db: db).foreignKeys().map(\.key))
        try OutboxRollback(db, copy: copy, changes: changes).undoOutbox()
        let findings = take(.log) { "\($0.message): the outbox does not start from the rows of the log" }
        guard findings.isEmpty else { return findings }
        return try FileChecks(db: db).foreignKeys(schema: SchemaCopy.target).filter { !before.contains($0.key) }.map { key, count in
            Finding(.log, "without the outbox, \(FileChecks.broken(key, count))", table: key.table)
        }
    }
}
