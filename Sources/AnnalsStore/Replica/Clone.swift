package import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

extension Store {
    /// Turns a snapshot file into a store that is a replica at the snapshot's position.
    ///
    /// The file is changed in place. Tracking begins, the snapshot's own tables are dropped, and full-text indexes with external
    /// content are rebuilt from the rows, because no trigger ran when these were inserted.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - membership: the replica's membership in its space.
    ///   - configuration: how the store is opened.
    ///   - relayTime: the relay's clock, in milliseconds since 1970; nil if unknown. The replica's clock starts at most one minute
    ///     after this time or the machine's clock, even if the snapshot contains a later time.
    ///   - logDigest: returns the log's running digest at the snapshot's position, if known.
    /// - Throws: `AnnalsError`; code `corruptBatch`, `schemaRefused` or `newerFormat` if the snapshot cannot be used.
    package static func fromSnapshot(
        at path: String, membership: Membership, configuration: Configuration = Configuration(), relayTime: Int64? = nil,
        logDigest: @escaping @Sendable (Position) -> Digest? = { _ in nil }
    ) async throws -> Store {
        do {
            return try await madeFromSnapshot(at: path, membership, configuration, relayTime, logDigest)
        } catch let error as AnnalsError where [.defect, .constraint, .notADatabase].contains(error.code) {
            throw SnapshotFile.unusable(error)
        }
    }

    private static func madeFromSnapshot(
        at path: String, _ membership: Membership, _ configuration: Configuration, _ relayTime: Int64?,
        _ logDigest: @escaping @Sendable (Position) -> Digest?
    ) async throws -> Store {
        var configuration = configuration.withoutMigrations
        configuration.isUntrusted = true
        let hasExtensions = !configuration.extensions.isEmpty
        let store = try Store(path: path, configuration: configuration)
        try await store.translated("clone") {
            try await store.database.writeWithoutTransaction { db in
                // The user named the extensions for this space. Its CHECKs and generated columns may call their functions.
                if hasExtensions { try db.execute(sql: "PRAGMA trusted_schema = ON") }
                // Before the check, which evaluates the CHECKs: SQLite 3.40 allows JSON functions in a trusted schema only.
                if try SchemaReach.isWithinSQLite(db) { try db.execute(sql: "PRAGMA trusted_schema = ON") }
                try SnapshotFile.check(db)
            }
        }
        try await store.managed("clone") { [configuration] db, step in
            let contents = try SnapshotFile.read(db)
            guard contents.lineage == membership.lineage else { throw SnapshotFile.otherLog }
            let names = try SnapshotNames(db, contents).takePresentNames()
            try FullTextIndexes.rebuild(db)
            try SpatialIndexes.rebuild(db)
            let report = try Tracking.track(db, .tables(names.map(\.own)), step.environment)
            guard report.tables.allSatisfy(\.isTracked) else { throw Self.cannotTrack(report) }
            try ReplicaTables.createIfMissing(db)
            try SnapshotFile.unpack(db)
            try UnconfirmedAuthors.begin(at: contents.position, db)
            let told = logDigest(contents.position)
            if let told, let own = contents.logDigest, told != own { throw SnapshotFile.otherLog }
            try membership.state(at: contents.position, told ?? contents.logDigest, as: configuration.identities.key()).save(db)
            try SnapshotNames.save(names, db)
            step.forgetComparison()
            var schema = SpaceSchema(try TrackedTables.load(db), names: contents.presentNames)
            (schema.version, schema.added) = (contents.schemaVersion, contents.added)
            schema.removed = contents.removed.isEmpty ? nil : contents.removed
            let removedTables = contents.removedTables.subtracting(schema.tables.map(\.name.foldedIdentifier))
            schema.removedTables = removedTables.isEmpty ? nil : removedTables
            guard schema.take(fills: contents.fills) else { throw SnapshotFile.notASnapshot }
            try schema.save(db)
            try Meta(db).set(.outboxed, 0)
            try HighestKeys.save(db, contents.highestKeys)
            var clock = try step.clock()
            clock.observe(contents.time.clamped(toReceipt: max(step.environment.now(), relayTime ?? .min)))
            try StoreClock.save(clock, db)
            guard try StoreDigest.rows(db) == contents.rows else { throw SnapshotFile.otherRows }
            // If another machine put invalid data into the snapshot, this check finds it now and not later in a useless clone.
            guard try OwnTableChecks(db: db).run().isEmpty else { throw SnapshotFile.notASnapshot }
        }
        return store
    }

    /// Sets the file to WAL mode, in which readers and the writer do not block each other. If this is not possible, the file stays
    /// as it is.
    package func useWriteAheadLog() async throws {
        try await translated("clone") {
            try await database.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL") }
        }
    }

    /// Untracked tables that are empty in a new replica.
    package func emptyTables() async throws -> [String] {
        try await translated("clone") {
            try await database.reading { db in try SchemaReader(db).emptyTables(TrackedTables.load(db)) }
        }
    }

    private static func cannotTrack(_ report: TrackingReport) -> AnnalsError {
        let names = report.tables.filter { !$0.isTracked }.map(\.name).joined(separator: ", ")
        return AnnalsError(.schemaRefused, operation: "clone", "these tables of the space cannot be tracked here: \(names)")
    }

    /// Compares the tracked rows with those of a copy of a space, table by table, in the tables and columns that both have.
    package func differences(from path: String, schema: JoinedSchema = .equal) async throws -> RowDifferences {
        try await translated("join") {
            try await database.writeWithoutTransaction { db in
                try db.execute(sql: "ATTACH DATABASE ? AS annals_other", arguments: [path])
                defer { SQLiteStatements.putBack("DETACH DATABASE annals_other", on: db) }
                let queue = try DatabaseQueue(path: path)
                defer { try? queue.close() }
                return try queue.read { other in
                    let names = try JoiningNames(db, other)
                    let tables = try names.named(TrackedTables.load(db))
                    let comparison = try SchemaComparison.joining(tables, other, schema)
                    var differences = RowDifferences(tables: try tables.entries.compactMap { try Self.compare(db, $0, names.theirs) })
                    differences.missingSchema = try comparison.behind.names(in: SpaceSchema.load(other))
                    differences.added = comparison.additions.tables.map(\.name)
                    return differences
                }
            }
        }
    }

    /// nil if the copy does not have the table.
    private static func compare(_ db: Database, _ entry: TrackedTables.Entry, _ others: TrackedTables) throws -> RowDifferences.Table? {
        let table = entry.definition
        let name = SQL.quote(table.name)
        let other = others.table(first: entry.first.name)
        /// The other file's name of the column at that index.
        func theirs(_ columnIndex: Int) -> String {
            let name = entry.first.columns[columnIndex].name
            return SQL.quote(other?.first.columnIndex(of: name).flatMap { other?.definition.columns[$0].name } ?? name)
        }
        guard let their = (other?.definition.name).map(SQL.quote) else { return nil }
        let match = table.primaryKey.enumerated().map { part, columnIndex in
            "a.\(SQL.quote(table.columns[columnIndex].name)) = b.\(theirs(columnIndex))\(table.keyCollate(part))"
        }
        let same = table.columns.indices.map { columnIndex in
            let (quoted, other) = (SQL.quote(table.columns[columnIndex].name), theirs(columnIndex))
            return "(typeof(a.\(quoted)) = typeof(b.\(other)) AND a.\(quoted) COLLATE BINARY IS b.\(other))"
        }
        let condition = match.joined(separator: " AND ")
        let equal = SQL.balanced(same, operator: "AND")
        func count(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: sql) ?? 0 }
        return RowDifferences.Table(
            name: table.name,
            equal: try count("SELECT count(*) FROM main.\(name) a JOIN annals_other.\(their) b ON \(condition) WHERE \(equal)"),
            onlyHere: try count(
                "SELECT count(*) FROM main.\(name) a WHERE NOT EXISTS (SELECT 1 FROM annals_other.\(their) b WHERE \(condition))"),
            onlyThere: try count(
                "SELECT count(*) FROM annals_other.\(their) b WHERE NOT EXISTS (SELECT 1 FROM main.\(name) a WHERE \(condition))"),
            differing: try count("SELECT count(*) FROM main.\(name) a JOIN annals_other.\(their) b ON \(condition) WHERE NOT \(equal)"))
    }

    /// Makes this store the replica that `clone` is, if their rows are equal now. The clone is discarded then.
    ///
    /// - Returns: false if the rows or the tables differ; nothing was changed.
    package func adopt(_ clone: Store, digest: @escaping @Sendable (Database) throws -> Digest) async throws -> Bool {
        return try await managed("join") { db, step in
            guard try ReplicaState.load(db) == nil else { throw Self.joinedElsewhere }
            try step.recordExternal()
            return try clone.database.reading { other in
                guard let state = try ReplicaState.load(other) else {
                    throw AnnalsError(.defect, operation: "join", "the clone is not a replica")
                }
                try JoiningNames(db, other).save(step.tables())
                step.forgetComparison()
                // The merge of both stores reports how the tables differ.
                let isAlike = try SchemaComparison.joining(step.tables(), other, .additions).isAlike
                guard try isAlike && digest(db) == digest(other) else {
                    try CanonicalNames.drop(db)
                    try StoreSchema.noteSchemaVersion(db)
                    step.forgetComparison()
                    return false
                }
                let references = try JoiningReferences(db, other, step.tables())
                try ReplicaTables.createIfMissing(db)
                try state.save(db)
                try ReplicaTables.copyShared(from: other, to: db)
                try Meta(db).set(.outboxed, try step.newestTransaction())
                try references.offer(step)
                try HighestKeys.noteRows(db, step.tables())
                try UnsentRows.end(db)
                return true
            }
        }
    }
}
