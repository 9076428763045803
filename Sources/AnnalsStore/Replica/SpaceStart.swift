package import AnnalsCore
package import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
import GRDB

/// Rows that were copied for a new space, with the time of the copy.
package struct CopiedRows: Sendable {
    /// The file with the rows.
    package var path: String
    /// The newest transaction of history at that time.
    var transaction: Int64
    var schemaVersion: Int64
    /// The digest of the rows.
    var digest = Digest.zero
}

/// How a store starts a space: its rows at one time become the space's rows, and its schema is the log's first entry.
///
/// The relay decides twice: only one store can push the log's first entry, and only one can upload the snapshot at its position. A
/// store that comes second gets the answer stale for its entry, or its snapshot is superseded, and it joins like any other. Until
/// both are accepted, the store is *creating*: it sends nothing else, so a join that continues an interrupted one can copy the rows
/// again.
extension Store {

    /// The stage of a join that creates a space; nil if none is under way or was interrupted.
    package func creationStage() async throws -> CreationStage? {
        try await translated("join") { try await database.reading { db in try CreationStage.load(db) } }
    }

    /// Refuses rows that violate a foreign key. Every replica would have them, and could not enforce the declared schema.
    ///
    /// - Throws: `AnnalsError.constraint` with counts by table.
    package func checkReferences() async throws {
        try await translated("join") { try await database.reading { db in try Self.checkReferences(db) } }
    }

    private static func checkReferences(_ db: Database) throws {
        let tracked = try TrackedTables.load(db)
        let broken = try FileChecks(db: db).foreignKeys().filter { tracked.table(named: $0.key.table) != nil }
        guard !broken.isEmpty else { return }
        let counts = broken.map { "\($0.key.table): \($0.count) without a parent in \($0.key.parent)" }.joined(separator: "; ")
        throw AnnalsError(
            .constraint, operation: "join", "rows violate a foreign key, and would violate it in every replica: \(counts)",
            hint: "PRAGMA foreign_key_check lists them; correct them first. Nothing was changed")
    }

    /// Refuses tracked tables with functions or collations that this program does not have. It could neither create them in a new replica
    /// nor write their rows, so the first entry with such a row would end every sync.
    ///
    /// Triggers are no reason: they are created without what they call, and an entry concerns them only if it has rows of their table.
    ///
    /// - Throws: `AnnalsError.schemaRefused` with the tables.
    package func checkUsableTables() async throws {
        let unusable = try await unusableTables().filter { $0.isTracked && !$0.isOnlyInTriggers }
        guard !unusable.isEmpty else { return }
        let names = unusable.map { "\($0.table) (\($0.message))" }.joined(separator: ", ")
        throw AnnalsError(
            .schemaRefused, operation: "join", "these tables use what this program does not have: \(names)",
            hint: "Add it to the connections in Store.Configuration.prepareDatabase, or untrack the tables. Nothing was changed",
            commandHint: "Load the extension that has it with --load-extension, or run annals untrack for the tables. Nothing was changed")
    }

    /// Copies the rows for a new space into a snapshot file, before the space is created. So rows that cannot be copied cause an
    /// error early.
    ///
    /// - Throws: `AnnalsError`; `schemaRefused` if the schema needs something that this program lacks, `constraint` if rows violate
    ///   a foreign key, `diskFull`. Nothing was changed then.
    package func copyRows(to path: String) async throws -> CopiedRows {
        let (configuration, schema) = (configuration, schema)
        return try await translated("join") {
            try await database.writeWithoutTransaction { db in
                let tables = try TrackedTables.load(db)
                guard !tables.entries.isEmpty else { throw Self.nothingTracked }
                var copied = CopiedRows(path: path, transaction: 0, schemaVersion: try Self.schemaVersion(db))
                copied.digest = try SnapshotFile.write(db, to: path, tables: tables.entries.map(\.definition), kind: .immediate) {
                    let step = StoreStep(db, configuration, schema)
                    try step.recordExternal()
                    try Self.checkReferences(db)
                    copied.transaction = try step.newestTransaction()
                    return try Self.contents(step, tables, lineage: .random())
                }
                return copied
            }
        }
    }

    /// Makes the store the first replica of a new space. Its current rows become the space's rows and are written to the snapshot
    /// file. The schema entry waits in the outbox.
    ///
    /// Other writers wait while the rows are copied, because no write may come between them and the start of the outbox. If nothing
    /// was written since an earlier copy, the rows are not copied again.
    ///
    /// If it is called again, it starts again, except for what the relay may have already.
    ///
    /// - Parameters:
    ///   - membership: the replica's membership in its space.
    ///   - copied: the rows that were copied.
    ///   - first: the log's first entry, if another store started the space and never uploaded its rows; nil if this store starts
    ///     it.
    /// - Returns: the argument for `noteSnapshot`, so that only the newest of several attempts continues.
    package func startSpace(_ membership: Membership, from copied: CopiedRows, after first: FirstEntry? = nil) async throws -> String {
        let beginning = (configuration.identities.next() as TransactionID).description
        let (configuration, schema) = (configuration, schema)
        try await translated("join") {
            try await database.writeWithoutTransaction { db in
                let tables = try TrackedTables.load(db)
                guard !tables.entries.isEmpty else { throw Self.nothingTracked }
                let isSameSchema = try Self.schemaVersion(db) == copied.schemaVersion
                func start(hasRows: Bool) throws {
                    try SnapshotFile.write(
                        db, to: copied.path, tables: tables.entries.map(\.definition), kind: .immediate,
                        rows: hasRows ? copied.digest : nil
                    ) {
                        let step = StoreStep(db, configuration, schema)
                        try step.recordExternal()
                        if hasRows, try step.newestTransaction() != copied.transaction { throw WrittenSince() }
                        if !hasRows { try Self.checkReferences(db) }
                        return try Self.begin(step, tables, membership, beginning, after: first)
                    }
                }
                do {
                    guard isSameSchema else { throw WrittenSince() }
                    try start(hasRows: true)
                } catch is WrittenSince {
                    try FileManager.default.removeItem(atPath: copied.path)
                    try start(hasRows: false)
                }
            }
        }
        return beginning
    }

    /// The entry with which another store started a space.
    package struct FirstEntry: Sendable {
        package var author: ReplicaID
        package var digest: Digest

        package init(author: ReplicaID, digest: Digest) {
            self.author = author
            self.digest = digest
        }
    }

    private struct WrittenSince: Error {}

    private static func schemaVersion(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA main.schema_version") ?? 0
    }

    private static func contents(
        _ step: StoreStep, _ tables: TrackedTables, lineage: Lineage, authors: [ReplicaID: AuthorChains.Link?] = [:]
    ) throws -> SnapshotFile.Contents {
        let highest = try StoreSchema.isReplica(step.db) ? HighestKeys.load(step.db) : [:]
        return SnapshotFile.Contents(
            position: .first, lineage: lineage, tracked: tables.entries.map(\.definition.name),
            canonicalNames: SnapshotNames.canonicalNames(tables), time: try step.clock().last,
            highestKeys: highest, authors: authors)
    }

    private static func begin(
        _ step: StoreStep, _ tables: TrackedTables, _ membership: Membership, _ beginning: String, after first: FirstEntry?
    ) throws -> SnapshotFile.Contents {
        let db = step.db
        var state = membership.state(at: .zero, .zero, as: try step.identities.key())
        if let first { state.pass(first.digest) }
        if let earlier = try ReplicaState.load(db) {
            let isOwn = try CreationStage.load(db)?.lineage == membership.lineage
            guard isOwn, earlier.lastCounter.rawValue <= 1 else { throw alreadyJoined }
            state.replica = earlier.replica
            state.secret = earlier.secret
            state.lastCounter = earlier.lastCounter
            state.lastDigest = earlier.lastDigest
            state.position = earlier.position
            state.logDigest = earlier.logDigest
            state.head = earlier.head
        }
        try ReplicaTables.createIfMissing(db)
        try state.save(db)
        if let first { try AuthorChains.save(db, AuthorChains.Link(counter: Counter(1), digest: first.digest), of: first.author) }
        try SpaceSchema(tables).save(db)
        try CreationStage.started(membership.lineage, beginning: beginning).save(db)
        try Meta(db).set(.outboxed, try step.newestTransaction())
        try HighestKeys.noteRows(db, tables)
        // Writes since an earlier attempt are in the rows. Only an entry that the relay may have stays.
        let sent = try Push.load(db)?.lastSequence ?? 0
        try Outbox.deleteAllParts(db)
        try Outbox.delete(db, after: sent)
        if state.position == .zero, state.lastCounter == .zero, sent == 0 { try Outbox.append(db, schemaRow(step, tables)) }
        // The digest of another store's first entry is known. The digest of this store's own first entry, which may not be sent
        // yet, is not.
        var authors = try AuthorChains.all(db)
        if authors.isEmpty { authors[state.replica] = AuthorChains.Link(counter: Counter(1), digest: .zero) }
        return try contents(step, tables, lineage: membership.lineage, authors: authors)
    }

    /// Whether another store started a space with the same schema as this store's.
    package func hasSchema(of entry: SchemaEntry) async throws -> Bool {
        try await translated("join") {
            try await database.reading { db in
                let tracked = try TrackedTables.load(db).entries.map(\.definition.layout)
                return try Set(tracked) == Set(entry.tracked) && SchemaCopy(db: db, tables: []).statements() == entry.statements
            }
        }
    }

    /// Gives up a space that this store started, unless another program has finished or restarted the join meanwhile.
    package func abandonSpace(_ lineage: Lineage) async throws {
        try await managed("join") { db, _ in
            guard try CreationStage.load(db)?.lineage == lineage else { return }
            try ReplicaTables.drop(db)
        }
    }

    private static func schemaRow(_ step: StoreStep, _ tables: TrackedTables) throws -> Outbox.Draft {
        let info = TransactionInfo(id: step.identities.next(), time: try step.tick(), origin: .migration)
        var encoder = BodyEncoder(info: info)
        encoder.schema(
            SchemaEntry(
                version: 1, statements: try SchemaCopy(db: step.db, tables: []).statements(),
                tracked: tables.entries.map(\.definition.layout), isBreaking: true))
        return Outbox.Draft(
            id: info.id, time: info.time, changes: 0, journal: 0, footprint: .everything, body: encoder.finishInPieces())
    }

    /// Notes that the snapshot with this digest, from this attempt, is about to be sent.
    ///
    /// - Throws: `AnnalsError.busy` if another program is joining this store too.
    package func noteSnapshot(_ digest: Digest, of beginning: String) async throws {
        try await managed("join") { db, _ in
            guard case .started(let lineage, beginning) = try CreationStage.load(db) else { throw Self.joinedElsewhere }
            try CreationStage.copied(lineage, digest).save(db)
        }
    }

    /// Notes that the relay has the snapshot with this digest. The join is done.
    ///
    /// - Throws: `AnnalsError.busy` if another program is joining this store too.
    package func finishJoin(_ digest: Digest) async throws {
        try await managed("join") { db, _ in
            guard case .copied(_, digest) = try CreationStage.load(db) else { throw Self.joinedElsewhere }
            try Meta(db).set(.joinStage, nil)
            try UnsentRows.end(db)
        }
    }

    static var joinedElsewhere: AnnalsError {
        AnnalsError(
            .busy, operation: "join", "another program is joining this store", hint: "Join again when it is done",
            commandHint: "Run annals join again when it is done", isRetryable: true)
    }
}
