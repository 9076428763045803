import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
public import GRDB

/// A snapshot that a replica made for the space.
package struct MadeSnapshot: Sendable {
    /// The position and running digest of the log that the rows belong to. A relay with another log refuses the snapshot.
    package var seen: LogMark
    /// The size of the file before compression.
    package var byteCount: Int64
}

extension Store {
    /// Writes the space's rows at this replica's position into a snapshot file: without the outbox, and without concurrent writes.
    ///
    /// It reads in one read transaction on its own connection. In WAL mode it blocks no other program. In a rollback-journal mode,
    /// commits to the file wait until the rows are copied.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - relayTime: the relay's clock, in milliseconds since 1970. It limits the time in the snapshot if this machine's clock is
    ///     ahead.
    /// - Returns: nil if the rows are not those of the log at one position, for example while own entries are ahead of it.
    /// - Throws: `AnnalsError`; `diverged` if rows and outbox do not match.
    package func makeSnapshot(at path: String, relayTime: Int64) async throws -> MadeSnapshot? {
        try await readingLog(attaching: path) { try $0.run(relayTime: relayTime) }
    }

    /// The contents of the log at this replica's position: the rows without the outbox, and everything else that a clone at that
    /// position has. It reads in one read transaction, as `makeSnapshot` does.
    ///
    /// - Parameter scratch: a file for a copy of the rows, which is needed if the store has transactions that the log lacks.
    /// - Returns: nil if the rows are not those of the log at one position.
    package func logContents(scratch path: String) async throws -> LogContents? {
        try await readingLog(attaching: path) { try $0.logContents() }
    }

    private func readingLog<T: Sendable>(attaching path: String, _ body: @escaping @Sendable (SnapshotMaking) throws -> T) async throws -> T
    {
        // An in-memory database has no second connection.
        let reader = self.path == ":memory:" ? self : try Store(path: self.path, configuration: configuration.withoutMigrations)
        defer { if reader !== self { try? reader.close() } }
        let configuration = configuration
        return try await reader.translated("snapshot") {
            try await reader.database.writeWithoutTransaction { db in
                let environment = StoreStep(db, configuration).environment
                return try Replay.withConnection(db, attaching: path) {
                    try db.execute(
                        sql: "PRAGMA \(SchemaCopy.target).journal_mode = MEMORY; PRAGMA \(SchemaCopy.target).synchronous = OFF")
                    return try RecordedRead.run(db, environment) { try body(SnapshotMaking(db)) }
                }
            }
        }
    }
}

private struct SnapshotMaking {
    let db: Database

    init(_ db: Database) {
        self.db = db
    }

    /// The replica, its tables and its space's schema, if its rows and its outbox match the log at its position; otherwise nil.
    private func comparison() throws -> (state: ReplicaState, tables: TrackedTables, space: SpaceSchema)? {
        guard let state = try ReplicaState.load(db), try Meta(db).text(.joinStage) == nil, try !UnverifiedRows.isNoted(db),
            try Outbox.ahead(db).isEmpty
        else { return nil }
        // The outbox has policies or references that are in force here and that the space does not have yet.
        if try Outbox.footprints(db).contains(where: \.footprint.everything) { return nil }
        let tables = try TrackedTables.load(db)
        // If the schema differs from the log's, the rows differ too.
        let space = try SpaceSchema.load(db) ?? SpaceSchema(tables)
        guard try SchemaComparison(tables, space, missingSchema: MissingSchema.load(db)).isAlike else { return nil }
        return (state, tables, space)
    }

    func logContents() throws -> LogContents? {
        guard let (state, tables, space) = try comparison() else { return nil }
        let policies = try PolicyTable.load(db).filter { !$0.isOverride }.map(\.setting)
        return LogContents(
            position: state.position, rows: try digest(tables), tables: tables, space: space, policies: Set(policies),
            references: try ReferenceTable.load(db), authors: try authors(state))
    }

    private func digest(_ tables: TrackedTables) throws -> Digest {
        let changes = try NetChanges(db, tables: tables)
        let copy = copying(changes)
        let way = OutboxRollback(db, copy: copy, changes: changes)
        if try way.isEmpty() { return try StoreDigest.rows(db) }
        let schema = SchemaCopy(db: db, tables: tables.entries.map(\.definition))
        try schema.makeTables()
        try copy.move(.back, through: changes.unrecordedParts())
        try way.undoOutbox()
        return try digestOfCopy(tables)
    }

    private func copying(_ changes: NetChanges) -> HistoryCopy {
        HistoryCopy(db, schema: SchemaCopy.target, changes: changes) { mismatch in
            throw StoreError.toVerify(
                .diverged, operation: "snapshot", "the rows differ from the log and the outbox: \(mismatch.message)")
        }
    }

    private func digestOfCopy(_ tables: TrackedTables) throws -> Digest {
        try StoreDigest.rows(
            db, schema: SchemaCopy.target, tables: tables.entries.map(\.definition), named: tables.entries.map(\.first))
    }

    func run(relayTime: Int64) throws -> MadeSnapshot? {
        guard let (state, tables, space) = try comparison() else { return nil }
        let schema = SchemaCopy(db: db, tables: tables.entries.map(\.definition))
        try schema.makeTables()
        let changes = try NetChanges(db, tables: tables)
        let copy = copying(changes)
        try copy.move(.back, through: changes.unrecordedParts())
        try OutboxRollback(db, copy: copy, changes: changes).undoOutbox()
        try schema.dropLocalRows()
        let rows = try digestOfCopy(tables)
        try schema.makeRest { throw $0 }
        try schema.copyHeader()
        try SnapshotFile.writeContents(
            db,
            SnapshotFile.Contents(
                position: state.position, lineage: state.lineage, tracked: tables.entries.map(\.definition.name),
                canonicalNames: SnapshotNames.canonicalNames(tables), presentNames: space.names,
                time: try StoreClock.load(db).last.clamped(toReceipt: relayTime), highestKeys: try HighestKeys.load(db),
                schemaVersion: space.version, added: space.added, fills: space.fills(besides: tables),
                removed: space.removed ?? [:], removedTables: space.removedTables ?? [], authors: try authors(state), rows: rows,
                logDigest: state.logDigest))
        let pages = try Int64.fetchOne(db, sql: "PRAGMA \(SchemaCopy.target).page_count") ?? 0
        let size = try Int64.fetchOne(db, sql: "PRAGMA \(SchemaCopy.target).page_size") ?? 0
        return MadeSnapshot(seen: state.seen, byteCount: pages * size)
    }

    /// No own entry is ahead of the position, so the last accepted entry is this replica's newest in the log.
    private func authors(_ state: ReplicaState) throws -> [ReplicaID: AuthorChains.Link?] {
        var all = try AuthorChains.all(db)
        if state.lastCounter != .zero { all[state.replica] = AuthorChains.Link(counter: state.lastCounter, digest: state.lastDigest) }
        return all
    }
}

extension Store {
    /// A view of the store's current state that later commits do not change, like Core Data's query generation.
    ///
    ///     let generation = try store.makeQueryGeneration()
    ///     let rows = try await generation.read { db in try Invoice.fetchAll(db) }
    ///     let total = try await generation.read { db in try Invoice.select(sum(Column("amount")), as: Int.self).fetchOne(db) }
    ///
    /// It exists as long as the snapshot is held. It blocks no reader or writer, but the -wal file grows because it cannot be reused.
    /// So hold a generation only as long as a screen or a report needs it.
    ///
    /// - Throws: `AnnalsError` with code `usage` for an in-memory store and for a file that is not in WAL mode, where a long reader
    ///   would block all writers. Run `PRAGMA journal_mode = WAL` on the file once to change that.
    public func makeQueryGeneration() throws -> DatabaseSnapshot {
        try blocking("read") { database in
            if let pool = database as? DatabasePool { return try pool.makeSnapshot() }
            let mode = try database.unsafeReentrantRead { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
            guard mode == "wal", path != ":memory:" else {
                throw AnnalsError(
                    .usage, operation: "read", "a query generation needs a file in WAL mode",
                    hint: path == ":memory:" ? "A store in memory has no WAL mode" : "Run PRAGMA journal_mode = WAL on the file once")
            }
            // A queue on a file in WAL mode: the snapshot has its own connection, which lives longer than the pool that creates it.
            return try DatabasePool(path: database.path, configuration: database.configuration).makeSnapshot()
        }
    }
}
