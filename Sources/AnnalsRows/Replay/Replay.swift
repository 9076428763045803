import AnnalsCore
public import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The store as it was, in a new file: replay (law 8).
///
/// The rows are copied as they are now and then taken back, newest transaction first, by their net changes, every row
/// compared before it is touched. So no copy of an earlier state is ever kept, and a recent moment costs little.
///
///     let outcome = try await store.replay(to: token, output: yesterday)
///
/// The file has the schema as it is now, and nothing of Annals.
public enum Replay {
    public struct Outcome: Sendable {
        public var token: HistoryToken
        /// How many transactions were undone, and in how many rows.
        public var transactions: Int
        public var rows: Int
        /// What the file is not, as sentences for a person: untracked tables that came empty, and the like.
        public var notes: [String]
    }

    /// Writes the store as it was at `token` into a new file.
    ///
    /// Call it outside a transaction, on a connection that may write: the new file is attached to it. Other programs'
    /// writes are recorded first; then the store is only read, in one read transaction, so they may go on writing.
    ///
    /// - Parameters:
    ///   - db: a connection to the store.
    ///   - token: the point of history.
    ///   - path: the file.
    ///   - force: replaces a file that is there.
    ///   - environment: clock and identities, which a test gives.
    ///   - progress: told how many of how many transactions are undone; what it throws ends the replay.
    /// - Throws: `AnnalsError` with code `cannotCreate` when the file exists or cannot be made, `tokenExpired` or
    ///   `tokenUnknown`, `schemaRefused` when the schema needs what this program lacks, `diverged` when the rows are not
    ///   what history says. Nothing is left behind then.
    package static func write(
        _ db: Database, to token: HistoryToken, output path: String, force: Bool = false, environment: CaptureEnvironment = .system,
        progress: (_ done: Int64, _ of: Int64) throws -> Void = { _, _ in }
    ) throws -> Outcome {
        let file = try OutputFile(path, source: db.mainFile, mayReplace: force, operation: "replay")
        // Only what is sealed before is written to the store.
        var isFilling = false
        do {
            let outcome = try withConnection(db, attaching: file.temporaryPath) {
                try fill(db, token, environment, { isFilling = true }, progress)
            }
            try file.finish()
            return outcome
        } catch let error as DatabaseError where isFilling {
            file.discard()
            throw file.writingFailure(error) ?? StoreError.translate(error, operation: "replay", path: db.mainFile)
        } catch {
            file.discard()
            throw StoreError.translate(error, operation: "replay", path: db.mainFile)
        }
    }

    /// Attaches the copy and turns off what would stand in the way of rows that were right in their time: foreign keys,
    /// and CHECKs that another program went past.
    package static func withConnection<T>(_ db: Database, attaching path: String, _ body: () throws -> T) throws -> T {
        precondition(!db.isInsideTransaction, "a database cannot be attached inside a transaction")
        let pragmas = ["foreign_keys", "ignore_check_constraints"]
        let found = try pragmas.map { try Bool.fetchOne(db, sql: "PRAGMA \($0)") ?? false }
        do {
            try db.execute(sql: "ATTACH DATABASE ? AS \(SchemaCopy.target)", arguments: [path])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CANTOPEN {
            throw AnnalsError(
                .cannotCreate, operation: "replay", "\(path) cannot be created", hint: "Check the folder's permissions", underlying: error)
        }
        defer {
            for (pragma, value) in zip(pragmas, found) { SQLiteStatements.putBack("PRAGMA \(pragma) = \(value)", on: db) }
            SQLiteStatements.putBack("DETACH DATABASE \(SchemaCopy.target)", on: db)
        }
        try db.execute(sql: "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        return try body()
    }

    private static func fill(
        _ db: Database, _ token: HistoryToken, _ environment: CaptureEnvironment, _ begin: () -> Void,
        _ progress: (Int64, Int64) throws -> Void
    ) throws -> Outcome {
        let pageSize = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        try db.execute(
            sql: """
                PRAGMA \(SchemaCopy.target).page_size = \(pageSize);
                PRAGMA \(SchemaCopy.target).journal_mode = MEMORY;
                PRAGMA \(SchemaCopy.target).synchronous = OFF;
                PRAGMA \(SchemaCopy.target).secure_delete = ON;
                PRAGMA \(SchemaCopy.target).cache_size = \(-ReplayLimits.cacheKibibytes);
                """)
        var outcome = Outcome(token: token, transactions: 0, rows: 0, notes: [])
        try RecordedRead.run(db, environment) {
            begin()
            let bounds = try HistoryBounds(db)
            try bounds.check(token)
            let tables = try TrackedTables.load(db)
            let schema = SchemaCopy(db: db, tables: tables.entries.map(\.definition))
            try schema.makeTables()
            let changes = try NetChanges(db, tables: tables)
            let copy = HistoryCopy(db, schema: SchemaCopy.target, changes: changes) { mismatch in
                throw AnnalsError(
                    .diverged, operation: "replay", "the rows are not what history says they became: \(mismatch.message)",
                    hint: "Run annals verify")
            }
            outcome.rows += try copy.move(.back, through: changes.unrecordedParts())
            let all = bounds.latest.number - token.number
            for number in stride(from: bounds.latest.number, to: token.number, by: -1) {
                outcome.rows += try copy.move(.back, through: number)
                outcome.transactions += 1
                try progress(bounds.latest.number - number + 1, all)
            }
            try schema.makeRest { outcome.notes.append("\($0.message); it was left out") }
            try schema.copyHeader()
            try FullTextIndexes.rebuild(db, schema: SchemaCopy.target)
            outcome.notes += try note(on: SchemaReader(db).emptyTables(tables))
        }
        return outcome
    }

    private static func note(on empty: [String]) -> [String] {
        empty.isEmpty ? [] : ["not tracked, so empty: \(empty.joined(separator: ", "))"]
    }
}

/// Named bounds of replaying.
enum ReplayLimits {
    /// Page cache of the file that is written.
    static let cacheKibibytes = 16_384
    /// How often other programs' writes are recorded before a read that wants none unrecorded gives up.
    static let recordingAttempts = 100
}
