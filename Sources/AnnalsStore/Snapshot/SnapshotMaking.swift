import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
package import AnnalsWire
import Foundation
import GRDB

/// What a replica made for the space.
package struct MadeSnapshot: Sendable {
    /// Where the rows are of, in which log: a relay that has another takes no snapshot of it.
    package var seen: LogMark
    /// Of the file, before it is packed.
    package var byteCount: Int64
}

extension Store {
    /// Writes the space's rows, as the log at this replica's position has them, into a snapshot file: without what waits in
    /// the outbox, and whatever anybody writes meanwhile.
    ///
    /// It reads in one read transaction on a connection of its own. In WAL mode nobody waits for it; in a rollback-journal
    /// mode commits to the file wait until the rows are copied.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - relayTime: the relay's clock, in milliseconds since 1970: a clock here that runs ahead stays here.
    /// - Returns: nil where the rows are not what the log has at one position, such as while own entries are ahead of it.
    /// - Throws: `AnnalsError`; `diverged` where rows and outbox do not agree.
    package func makeSnapshot(at path: String, relayTime: Int64) async throws -> MadeSnapshot? {
        try await readingLog(attaching: path) { try $0.run(relayTime: relayTime) }
    }

    /// What the log at this replica's position comes to: the rows without what waits in the outbox, and what else a clone at that position
    /// has. It reads in one read transaction, as `makeSnapshot` does.
    ///
    /// - Parameter scratch: a file that rows are copied to, where there is work here that the log lacks.
    /// - Returns: nil where the rows are not what the log has at one position.
    package func logContents(scratch path: String) async throws -> LogContents? {
        try await readingLog(attaching: path) { try $0.logContents() }
    }

    private func readingLog<T: Sendable>(attaching path: String, _ body: @escaping @Sendable (SnapshotMaking) throws -> T) async throws -> T
    {
        // A database in memory has no second connection.
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

    /// The replica, its tables and its space's schema, where its rows and its outbox are what the log has at its position.
    private func comparison() throws -> (state: ReplicaState, tables: TrackedTables, space: SpaceSchema)? {
        guard let state = try ReplicaState.load(db), try Meta(db).text(.joinStage) == nil, try !UnverifiedRows.isNoted(db),
            try Outbox.ahead(db).isEmpty
        else { return nil }
        // Policies that the space does not have yet are in force here already.
        if try Outbox.footprints(db).contains(where: \.footprint.everything) { return nil }
        let tables = try TrackedTables.load(db)
        // Where the schema is not the log's, the rows are not either.
        let space = try SpaceSchema.load(db) ?? SpaceSchema(tables)
        guard try SchemaComparison(tables, space, missingSchema: MissingSchema.load(db)).isAlike else { return nil }
        return (state, tables, space)
    }

    func logContents() throws -> LogContents? {
        guard let (state, tables, space) = try comparison() else { return nil }
        let policies = try PolicyTable.load(db).filter { !$0.isOverride }.map(\.setting)
        return LogContents(
            position: state.position, rows: try digest(tables), tables: tables, space: space, policies: Set(policies),
            authors: try authors(state))
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
            throw AnnalsError(
                .diverged, operation: "snapshot", "the rows are not what the log and the outbox come to: \(mismatch.message)",
                hint: "Run annals verify")
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
                firstNames: SnapshotNames.firstNames(tables), presentNames: space.names,
                time: try StoreClock.load(db).last.clamped(toReceipt: relayTime), highestKeys: try HighestKeys.load(db),
                schemaVersion: space.version, added: space.added, authors: try authors(state), rows: rows,
                logDigest: state.logDigest))
        let pages = try Int64.fetchOne(db, sql: "PRAGMA \(SchemaCopy.target).page_count") ?? 0
        let size = try Int64.fetchOne(db, sql: "PRAGMA \(SchemaCopy.target).page_size") ?? 0
        return MadeSnapshot(seen: state.seen, byteCount: pages * size)
    }

    /// No own entry is ahead of the position, so the last accepted one is this replica's newest in the log.
    private func authors(_ state: ReplicaState) throws -> [ReplicaID: AuthorChains.Link?] {
        var all = try AuthorChains.all(db)
        if state.lastCounter != .zero { all[state.replica] = AuthorChains.Link(counter: state.lastCounter, digest: state.lastDigest) }
        return all
    }
}
