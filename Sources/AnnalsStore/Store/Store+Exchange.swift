package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
public import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import GRDB

extension Store {
    /// The store's state in its space; nil if it is not joined.
    public func replicaState() async throws -> ReplicaState? {
        try await translated("read") {
            try await database.reading { db in try StoreSchema.exists(db) ? ReplicaState.load(db) : nil }
        }
    }

    /// Stores how the relay's certificate is verified. Does nothing if the store is not joined.
    package func remember(_ trust: RelayTrust) async throws {
        try await translated("sync") {
            try await database.write { db in
                if try StoreSchema.exists(db), try ReplicaState.load(db) != nil { try trust.save(Meta(db)) }
            }
        }
    }

    /// Stores the path of the file with the relay's token. Does nothing if the store is not joined.
    package func remember(credentialFile: String) async throws {
        try await translated("sync") {
            try await database.write { db in
                if try StoreSchema.exists(db), try ReplicaState.load(db) != nil { try Meta(db).set(.credentialFile, credentialFile) }
            }
        }
    }

    /// Records writes of other programs and moves new transactions into the outbox.
    ///
    /// If a program left children without parents, the actions that their foreign keys declare are done, which may change rows.
    package func prepareOutbox() async throws -> ExchangeStatus {
        try await prepareOutbox(freezing: 0).status
    }

    /// The same, and if that is all that the store must do before a push, the push is frozen in the same SQLite transaction.
    ///
    /// - Parameter limit: with more transactions in the outbox, the push is left to `freezePush`, so that other writers wait for a short
    ///   time only.
    package func prepareOutbox(freezing limit: Int) async throws -> (status: ExchangeStatus, push: FrozenPush?) {
        if let status = try await looking("sync", { [idleCache] db in try idleCache.ready(db) }) { return (status, nil) }
        let (status, isUnsettled, isCaughtUp, push, state) = try await managed("sync") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try exchange.checkLog()
            try step.recordExternal()
            let comparison = try step.schemaComparison()
            try step.filler().fill()
            var status = try exchange.status()
            // References are settled only when the rows are known to match the log and the outbox.
            let isReady = !status.areRowsUnverified && !status.isSpaceUnfinished
            let isUnsettled = try isReady && UnsettledReferences.first(db) != nil
            let isCaughtUp = isReady && comparison.isCaughtUp && !status.isPushUnderWay
            var push: FrozenPush?
            if isReady, !isUnsettled, !isCaughtUp, status.schemaVersion <= 1, !status.isPushUnderWay, status.outbox > 0,
                status.outbox <= limit
            {
                push = try Self.freezeIfPossible(db, step, exchange)
                status.isPushUnderWay = push != nil
            }
            return (status, isUnsettled, isCaughtUp, push, try FileState(db))
        }
        if isCaughtUp {
            try await applyKeptEntries()
            return (try await prepareOutbox(), nil)
        }
        if status.schemaVersion > 1, !status.isPushUnderWay, try await adoptSchema() { return (try await prepareOutbox(), nil) }
        if isUnsettled { return (try await settleReferences(), nil) }
        idleCache.note(state, ready: status)
        return (status, push)
    }

    /// nil if the push cannot be frozen; `freezePush` then throws the reason.
    private static func freezeIfPossible(_ db: Database, _ step: StoreStep, _ exchange: ReplicaExchange) throws -> FrozenPush? {
        var push: FrozenPush?
        do {
            try db.inSavepoint {
                push = try exchange.freeze(step)
                return .commit
            }
        } catch is AnnalsError {
            return nil
        }
        return push
    }

    /// Applies deferred cells to the rows, after the store has got the tables and columns for them. Does nothing while a push is
    /// under way, because its transactions must not be rebased.
    ///
    /// - Returns: the number of conflicts that were settled while the outbox was rebased.
    @discardableResult
    func applyKeptEntries() async throws -> Int {
        let policies = configuration.mergePolicies
        return try await merging("sync") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            guard try step.schemaComparison().isCaughtUp, try !Push.isUnderWay(db), try !UnverifiedRows.isNoted(db) else { return 0 }
            try step.filler().fill()
            let summary = try Self.pull(db, step, exchange.state, policies).applyKeptEntries()
            step.forgetComparison()
            return summary.conflicts
        }
    }

    /// Records writes of other programs and moves new transactions into the outbox, for a status query. It changes no row, and
    /// returns the status even if the store must not sync now.
    package func updateOutbox() async throws -> ExchangeStatus {
        try await managed("status") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            // `sync` reports schemas that differ too much.
            guard (try? step.schemaComparison()) != nil else {
                var status = try exchange.status()
                status.outbox += try OutboxFiller.waiting(db)
                return status
            }
            do {
                try step.filler().fill()
            } catch let error as AnnalsError where error.code == .missingKey {
                // Without the key, footprints cannot be hashed. These transactions wait in history, and they count.
                var status = try exchange.status()
                status.outbox += try OutboxFiller.waiting(db)
                return status
            }
            return try exchange.status()
        }
    }

    private func settleReferences() async throws -> ExchangeStatus {
        let policies = configuration.mergePolicies
        return try await merging("sync") { db, step in
            let exchange = try Self.exchangeToRebase(db, step)
            try Self.pull(db, step, exchange.state, policies).settleReferences()
            return try exchange.status()
        }
    }

    /// - Parameters:
    ///   - isWriting: whether it may write rows, which then get a time of the store's clock.
    ///   - known: the names of tables with constraints that the space does not have; nil if they must be found.
    static func pull(
        _ db: Database, _ step: StoreStep, _ state: ReplicaState, _ policies: MergePolicies, isWriting: Bool = true,
        stricter known: [String]? = nil
    ) throws -> PageApplier {
        let tables = try step.tables()
        let session = MergeSession(db, registry: tables)
        session.kept = try DeferredCells.load(db)
        let stricter =
            try known ?? step.schemaComparison().additions.tightened.compactMap { tables.table(first: $0.name)?.definition.name }
        session.hasMoreConstraints = !stricter.isEmpty
        let clock = try step.clock()
        return PageApplier(
            db: db, session: session, state: state, process: step.environment.processName,
            identities: step.identities, layouts: try step.layouts(), limits: step.outboxLimits, cipher: try step.cipher(),
            policies: policies, clock: clock, now: isWriting ? try step.tick() : clock.last, stricter: stricter)
    }

    /// The push under way, or a new one from the oldest outbox transactions, at its first part; nil if there is nothing to push.
    package func freezePush() async throws -> FrozenPush? {
        try await continuing { db, step, ready in
            let push = try ReplicaExchange(db, step.identities).freeze(step)
            ready?.isPushUnderWay = push != nil
            return push
        }
    }

    /// Another part of a push; nil if that push was settled meanwhile.
    package func part(_ number: Int, of push: FrozenPush) async throws -> FrozenPush? {
        precondition((0..<push.parts).contains(number), "parts are numbered from 0")
        return try await managed("sync") { db, step in try ReplicaExchange(db, step.identities).part(number, of: push) }
    }

    /// Stores the relay's answer to a push. Does nothing if the push is settled already.
    package func settle(_ answer: PushAnswer, to push: FrozenPush) async throws -> SettledPush {
        try await continuing { db, step, ready in
            var exchange = try ReplicaExchange(db, step.identities)
            let settled = try exchange.settle(answer, to: push, step.outboxLimits, now: step.environment.now())
            // A new schema version of the space can affect the outbox, so the cached status is dropped.
            ready = settled.status.schemaVersion > 1 ? nil : ready.map { _ in settled.status }
            return settled
        }
    }

    /// A step that leaves the outbox as ready as before: it records nothing, and no other program has written since the outbox was
    /// ready.
    ///
    /// - Parameter body: changes the cached answer of `prepareOutbox` to the answer after the step; nil means that the answer is
    ///   unknown.
    private func continuing<T: Sendable>(
        _ body: @escaping @Sendable (Database, StoreStep, inout ExchangeStatus?) throws -> T
    ) async throws -> T {
        let (value, ready, state) = try await managed("sync") { [idleCache] db, step in
            var ready = try idleCache.ready(db)
            let value = try body(db, step, &ready)
            return (value, ready, try FileState(db))
        }
        if let ready { idleCache.note(state, ready: ready) }
        return value
    }

    /// Applies a page of the log and rebases the outbox onto it, in one SQLite transaction. Parts of a transaction are buffered
    /// until its last part arrives.
    package func apply(_ page: Page) async throws -> AppliedPage {
        var taken = try await applyRowsKeepingEvidence(page)
        guard taken.status.schemaVersion > 1, try await adoptSchema() else { return taken }
        if taken.status.isBehindSchema { try await applyKeptEntries() }
        let passesUnseen = taken.status.hasPassedUnseen
        taken.status = try await managed("sync") { db, step in try ReplicaExchange(db, step.identities).status() }
        taken.status.hasPassedUnseen = passesUnseen
        return taken
    }

    /// Rebuilds tables with the constraints that the space has now, if the store takes its schema from the log.
    func rebuild(_ tables: RedeclaredTables) async throws -> Bool {
        let (schemas, policies) = (configuration.newSchemas, configuration.mergePolicies)
        return try await merging("sync", runsTriggers: tables.addsConstraints) { db, step in
            guard try schemas.takes(db) else { return false }
            try step.recordExternal()
            guard tables.addsConstraints else {
                try tables.rebuild(db, step)
                return true
            }
            let exchange = try ReplicaExchange(db, step.identities)
            guard try !Push.isUnderWay(db) else { throw ApplyError.pushUnderWay }
            try step.filler().fill()
            try Self.rebuild(tables, db, step, exchange.state, policies)
            return true
        }
    }

    /// Rebuilds tables with constraints that rows of the outbox may violate.
    static func rebuild(
        _ tables: RedeclaredTables, _ db: Database, _ step: StoreStep, _ state: ReplicaState, _ policies: MergePolicies
    ) throws {
        let pull = try pull(db, step, state, policies)
        // Rows without the outbox may violate constraints that only this store has. It waits for its program then.
        guard pull.stricter.isEmpty else { throw tables.error }
        let undone = try pull.undoAll()
        try tables.rebuild(db, step)
        try Self.pull(db, step, state, policies).repeatAll(undone)
    }

    /// Applies a page in several attempts. An attempt that finds schema entries stops, and they are tried first. If an entry
    /// does not fit the rows, or if rows violate a constraint that only this store has, the next attempt undoes the outbox first.
    private func applyRowsKeepingEvidence(_ page: Page) async throws -> AppliedPage {
        var attempt = PageAttempt()
        while true {
            do {
                return try await applyRows(page, attempt)
            } catch let error as AnnalsError {
                if case .untriedSchema? = error.underlying as? ApplyError, attempt.tried == nil {
                    attempt.tried = try await trySchemas(of: page)
                } else if let tables = error.underlying as? RedeclaredTables, attempt.rebuilt != error.message, try await rebuild(tables) {
                    // One frame may have several such entries. Each rebuild removes at least one constraint.
                    attempt.rebuilt = error.message
                } else if error.underlying is ViolatedConstraint, !attempt.enforcesConstraints {
                    (attempt.enforcesConstraints, attempt.undoesOutbox) = (true, true)
                } else if let entry = error.entry, PageAttempt.mayFitWithoutOutbox(entry), !attempt.undoesOutbox {
                    attempt.undoesOutbox = true
                } else {
                    if let found = error.underlying as? ContradictingLog { try await keep(found.evidence) }
                    throw error
                }
            }
        }
    }

    /// Tries a page's schema entries while the file is not locked.
    private func trySchemas(of page: Page) async throws -> SchemaTrialResults {
        let policies = configuration.mergePolicies
        let schemas = try await merging("sync", commits: false) { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            return try Self.pull(db, step, exchange.state, policies, isWriting: false).schemas(of: page)
        }
        var tried = SchemaTrialResults()
        try await translated("sync") { for schema in schemas { try tried.note(schema.entry) } }
        return tried
    }

    private func applyRows(_ page: Page, _ attempt: PageAttempt) async throws -> AppliedPage {
        let configuration = configuration
        if page.frames.isEmpty {
            if let status = try await looking("sync", { [idleCache] db in try idleCache.taken(page, db) }) {
                return AppliedPage(status: status)
            }
            // If there is nothing to apply, the connection's settings do not change. Changing them would make SQLite compile all
            // statements again.
            let taken = try await managed("sync") { db, step -> (page: AppliedPage, state: FileState)? in
                let exchange = try Self.exchange(db, step, taking: page)
                guard try !step.schemaComparison().isCaughtUp, try UnsettledReferences.first(db) == nil else { return nil }
                return (try Self.take(page, exchange, step, configuration, attempt), try FileState(db))
            }
            if let taken {
                idleCache.note(taken.state, taken: page, taken.page.status)
                return taken.page
            }
        }
        let (taken, ready, state) = try await merging("sync") { db, step in
            let exchange = try Self.exchange(db, step, taking: page)
            if try step.schemaComparison().isCaughtUp {
                _ = try Self.pull(db, step, exchange.state, configuration.mergePolicies).applyKeptEntries()
                step.forgetComparison()
            }
            let taken = try Self.take(page, exchange, step, configuration, attempt)
            return (taken, try Self.ready(after: taken, db), try FileState(db))
        }
        if let ready { idleCache.note(state, ready: ready) }
        return taken
    }

    /// The answer of `prepareOutbox` after a page was applied, if it is known: everything was recorded and moved before.
    private static func ready(after taken: AppliedPage, _ db: Database) throws -> ExchangeStatus? {
        guard taken.status.schemaVersion <= 1, !taken.status.areRowsUnverified, try UnsettledReferences.first(db) == nil else { return nil }
        var status = taken.status
        status.hasPassedUnseen = false
        return status
    }

    /// Drops buffered parts. They may belong to a log that the relay lost when it was restored from a backup, and then no later
    /// part continues them. They are pulled again from the position on. nil if there were none.
    package func discardReceivedParts() async throws -> ExchangeStatus? {
        try await managed("sync") { db, step in
            guard try BufferedParts.last(db) != nil else { return nil }
            try BufferedParts.clear(db)
            return try ReplicaExchange(db, step.identities).status()
        }
    }

    /// Own entries in the log that are ahead of the position.
    package func digestsAhead() async throws -> [Position: Digest] {
        try await translated("sync") { try await database.reading { db in try Outbox.digestsAhead(db) } }
    }

    /// Entries that were passed over as voided and that no entry of the relay explains yet.
    package func passedVoids() async throws -> [VoidedEntry] {
        try await translated("sync") { try await database.reading { db in try PassedVoids.load(db) } }
    }

    /// The steps and checks before a page is applied.
    private static func exchange(_ db: Database, _ step: StoreStep, taking page: Page) throws -> ReplicaExchange {
        let exchange = try ReplicaExchange(db, step.identities)
        guard page.lineage == exchange.state.lineage else { throw ReplicaExchange.logRolledBack }
        guard try !Push.isUnderWay(db) else { throw ApplyError.pushUnderWay }
        return try exchangeToRebase(db, step)
    }

    /// The steps and checks before the outbox is rebased. What other programs wrote since the last recording must be in the outbox.
    static func exchangeToRebase(_ db: Database, _ step: StoreStep) throws -> ReplicaExchange {
        let exchange = try ReplicaExchange(db, step.identities)
        try step.recordExternal()
        try step.schemaComparison()
        try UnverifiedRows.check(db)
        try step.filler().fill()
        return exchange
    }

    private static func take(
        _ page: Page, _ exchange: ReplicaExchange, _ step: StoreStep, _ configuration: Configuration, _ attempt: PageAttempt
    ) throws -> AppliedPage {
        let policies = configuration.mergePolicies
        var exchange = exchange
        var pull = try pull(exchange.db, step, exchange.state, policies, isWriting: !page.frames.isEmpty)
        pull.attempt = attempt
        let (page, removed) = try pull.beforeSchemaChange(page, makesAdditions: configuration.newSchemas.takes(exchange.db))
        if !removed.isEmpty {
            try step.release(removed, configuration.newSchemas)
            pull = try Self.pull(exchange.db, step, exchange.state, policies, stricter: pull.stricter)
            pull.attempt = attempt
        }
        let summary: PageApplier.Summary
        do {
            summary = try pull.apply(page)
        } catch ApplyError.partialRebaseInvalid {
            // The attempt's changes to the schema were undone with it.
            exchange.db.clearSchemaCache()
            step.forgetComparison()
            pull = try Self.pull(exchange.db, step, exchange.state, policies, stricter: pull.stricter)
            pull.rebasesAll = true
            pull.attempt = attempt
            summary = try pull.apply(page)
        }
        try StoreClock.save(pull.clock, exchange.db)
        exchange.state = pull.state
        var status = try exchange.status()
        status.hasPassedUnseen = status.position > page.lastPosition && page.lastPosition < page.head
        return AppliedPage(
            status: status, transactions: summary.transactions, changes: summary.changes, bytes: summary.bytes,
            journal: summary.journal, delays: summary.delays)
    }

    /// Reads the file on the connection that the store writes with, outside a transaction, so that it waits for no lock.
    private func looking<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await translated(operation) { try await database.writeWithoutTransaction(body) }
    }

    /// A managed step: one write transaction in which external writes can be recorded first.
    func managed<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database, StoreStep) throws -> T) async throws -> T {
        let (configuration, schema, otherCommits) = (configuration, schema, otherCommits)
        return try await translated(operation) {
            try await database.writeWithoutTransaction { db in
                try Self.followSchema(db, configuration, schema)
                var result: T?
                try db.inTransaction(.immediate) {
                    try otherCommits.look(db)
                    try schema.begin(db)
                    result = try body(db, StoreStep(db, configuration, schema))
                    return .commit
                }
                guard let result else { throw AnnalsError(.defect, operation: operation, "internal error: a write ended without a result") }
                return result
            }
        }
    }

    /// A managed step with the connection's triggers and foreign keys off, as applying needs it. Without `commits`, everything is
    /// rolled back at the end, and only the result stays. With `runsTriggers`, the triggers run that keep indexes.
    func merging<T: Sendable>(
        _ operation: String, commits: Bool = true, runsTriggers: Bool = true, _ body: @escaping @Sendable (Database, StoreStep) throws -> T
    ) async throws -> T {
        let (configuration, schema, otherCommits) = (configuration, schema, otherCommits)
        return try await translated(operation) {
            try await database.writeWithoutTransaction { db in
                if commits { try Self.followSchema(db, configuration, schema) }
                let tracked = try Set(schema.tables(db).entries.map(\.definition.name))
                var triggers =
                    try runsTriggers
                    ? UserTriggers.plan(db, tracked: tracked) : UserTriggers(temporaries: [], reached: [], tracked: tracked)
                triggers.refusesWhenWritten = true
                return try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                    var result: T?
                    try db.inTransaction(.immediate) {
                        try otherCommits.look(db)
                        try schema.begin(db)
                        let undetected = try UndetectedChanges(db)
                        result = try body(db, StoreStep(db, configuration, schema))
                        if commits { try undetected.notify() }
                        return commits ? .commit : .rollback
                    }
                    if !commits { schema.forgetRolledBack() }
                    guard let result else {
                        throw AnnalsError(.defect, operation: operation, "internal error: a write ended without a result")
                    }
                    return result
                }
            }
        }
    }

    /// Repairs capture in its own transaction, so that the repair stays even if the next step throws. Which triggers run is decided
    /// before the transaction that sees schema changes of other programs.
    private static func followSchema(_ db: Database, _ configuration: Configuration, _ schema: SchemaCache) throws {
        guard try StoreSchema.exists(db), try Drift.isSuspected(db) || TrackingRule.mayHaveMore(db) else { return }
        try db.inTransaction(.immediate) {
            try schema.begin(db)
            let step = StoreStep(db, configuration, schema)
            try step.recordExternal()
            try TrackingRule.apply(db, step.environment)
            return .commit
        }
    }
}
