import AnnalsCore
public import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// Replay: writes the store as it was at an earlier point to a new file (law 8).
///
/// The current rows are copied. Then the net changes of the transactions are undone in the copy, newest first, and every row is
/// compared before it is changed. So the store keeps no copies of earlier states, and the replay of a recent point is cheap.
///
///     let outcome = try await store.replay(to: token, output: yesterday)
///
/// The file has the current schema, and no tables or triggers of Annals.
public enum Replay {
    public struct Outcome: Sendable {
        public var token: HistoryToken
        /// The number of undone transactions. `rows` is the number of rows that they changed.
        public var transactions: Int
        public var rows: Int
        /// Differences between the file and the store at that time, as sentences for a person. Example: untracked tables are empty.
        public var notes: [String]
    }

    /// Writes the store as it was at `point` to a new file.
    ///
    /// Call it outside a transaction, on a connection that may write, because the new file is attached to the connection. The
    /// writes of other programs are recorded first. Then one read transaction reads the store, so other programs can write.
    ///
    /// - Parameters:
    ///   - db: A connection to the store.
    ///   - point: The point of history.
    ///   - path: The new file.
    ///   - force: Replaces an existing file.
    ///   - leftOut: Tables without rows in the file, for example because their rows are not known at that point.
    ///   - environment: The clock and identities. Tests give their own.
    ///   - progress: Called with the number of undone transactions and the number of all. An error that it throws ends the replay.
    /// - Throws: `AnnalsError` with code `cannotCreate` if the file exists or cannot be created, `notTracked` if a left out table
    ///   never was tracked, `tokenExpired` or `tokenUnknown`, `schemaRefused` if the schema needs a function, collation or module that this program does not have, or
    ///   `diverged` if the rows differ from history. Then no file is left.
    package static func write(
        _ db: Database, to point: HistoryPoint, output path: String, force: Bool = false, leavingOut leftOut: [String] = [],
        environment: CaptureEnvironment = .system,
        progress: (_ done: Int64, _ of: Int64) throws -> Void = { _, _ in }
    ) throws -> Outcome {
        let file = try OutputFile(path, source: db.mainFile, mayReplace: force, operation: "replay")
        // The store is only written while the writes of other programs are recorded. Later database errors concern the new file.
        var isFilling = false
        do {
            let outcome = try withConnection(db, attaching: file.temporaryPath) {
                try fill(db, point, leftOut, environment, { isFilling = true }, progress)
            }
            try file.finish()
            return outcome
        } catch let error as DatabaseError where isFilling {
            file.discard()
            throw file.writingFailure(error) ?? StoreError.thrown(error, operation: "replay", path: db.mainFile)
        } catch {
            file.discard()
            throw StoreError.thrown(error, operation: "replay", path: db.mainFile)
        }
    }

    /// Attaches the copy, gives both files a cache for many rows, and turns off foreign keys and CHECKs. Earlier rows may not fulfil them: references are incomplete during
    /// the replay, and another program may have written past a CHECK.
    package static func withConnection<T>(_ db: Database, attaching path: String, _ body: () throws -> T) throws -> T {
        precondition(!db.isInsideTransaction, "a database cannot be attached inside a transaction")
        let pragmas = ["foreign_keys", "ignore_check_constraints", "main.cache_size"]
        let found = try pragmas.map { try Int.fetchOne(db, sql: "PRAGMA \($0)") ?? 0 }
        do {
            try db.execute(sql: "ATTACH DATABASE ? AS \(SchemaCopy.target)", arguments: [path])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CANTOPEN {
            throw AnnalsError(
                .cannotCreate, operation: "replay", "\(path) cannot be created", hint: "Check the folder's permissions", underlying: error)
        }
        defer {
            WorkCache.giveBack(db) {
                for (pragma, value) in zip(pragmas, found) { SQLiteStatements.putBack("PRAGMA \(pragma) = \(value)", on: db) }
                SQLiteStatements.putBack("DETACH DATABASE \(SchemaCopy.target)", on: db)
            }
        }
        try db.execute(sql: "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        return try WorkCache.with { kibibytes in
            let half = max(WorkCache.least, kibibytes / 2)
            let main = WorkCache.pragma(found.last ?? 0, half)
            try db.execute(sql: "PRAGMA main.cache_size = \(main); PRAGMA \(SchemaCopy.target).cache_size = \(-half)")
            return try body()
        }
    }

    private static func fill(
        _ db: Database, _ point: HistoryPoint, _ unwanted: [String], _ environment: CaptureEnvironment, _ begin: () -> Void,
        _ progress: (Int64, Int64) throws -> Void
    ) throws -> Outcome {
        let pageSize = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        try db.execute(
            sql: """
                PRAGMA \(SchemaCopy.target).page_size = \(pageSize);
                PRAGMA \(SchemaCopy.target).journal_mode = MEMORY;
                PRAGMA \(SchemaCopy.target).synchronous = OFF;
                PRAGMA \(SchemaCopy.target).secure_delete = ON;
                """)
        let token = point.token
        var outcome = Outcome(token: token, transactions: 0, rows: 0, notes: point.note.map { [$0] } ?? [])
        try RecordedRead.run(db, environment) {
            begin()
            let bounds = try HistoryBounds(db)
            try bounds.check(token)
            let all = try TrackedTables.load(db)
            try checkNames(unwanted, db)
            try UnknownRows.check([point], tables: nil, leavingOut: unwanted, operation: "replay", db)
            let tables = all.without(unwanted)
            let schema = SchemaCopy(db: db, tables: tables.entries.map(\.definition))
            try schema.makeTables()
            let changes = try NetChanges(db, tables: tables)
            let copy = HistoryCopy(db, schema: SchemaCopy.target, changes: changes) { mismatch in
                throw StoreError.toVerify(.diverged, operation: "replay", "the rows differ from history: \(mismatch.message)")
            }
            outcome.rows += try copy.move(.back, through: changes.unrecordedParts())
            let count = bounds.latest.number - token.number
            for number in stride(from: bounds.latest.number, to: token.number, by: -1) {
                if number == point.dividedTransaction {
                    outcome.rows += try copy.move(.back, through: changes.parts(after: point))
                } else {
                    outcome.rows += try copy.move(.back, through: number)
                    outcome.transactions += 1
                }
                try progress(bounds.latest.number - number + 1, count)
            }
            try schema.makeRest { outcome.notes.append("\($0.message); it was left out") }
            let leftOut = try schema.leftOut().map(\.table)
            if !leftOut.isEmpty {
                outcome.notes.append("tables that use what this program does not have are left out: \(leftOut.joined(separator: ", "))")
            }
            try schema.copyHeader()
            try FullTextIndexes.rebuild(db, schema: SchemaCopy.target)
            try SpatialIndexes.rebuild(db, schema: SchemaCopy.target)
            outcome.notes += try note("untracked tables", SchemaReader(db).emptyTables(all))
            outcome.notes += note(
                "left out tables, to which other rows may refer,",
                all.entries.map(\.definition.name).filter { tables.table(named: $0) == nil })
        }
        return outcome
    }

    private static func note(_ which: String, _ empty: [String]) -> [String] {
        empty.isEmpty ? [] : ["\(which) are empty: \(empty.joined(separator: ", "))"]
    }

    /// A table whose rows are not known may have been dropped since.
    private static func checkNames(_ names: [String], _ db: Database) throws {
        let known = try names.isEmpty ? [] : TrackedTable.fetchAll(db).map(\.name)
        for name in names where !known.contains(where: name.isSameIdentifier) {
            throw AnnalsError(
                .notTracked, operation: "replay", "the table \(name) is not tracked", hint: "status() lists the tracked tables",
                commandHint: "annals status lists the tables")
        }
    }
}

/// Limits of replay.
enum ReplayLimits {
    /// Attempts to begin a read transaction without unrecorded notes. Then `RecordedRead` fails with code `busy`.
    static let recordingAttempts = 100
}
