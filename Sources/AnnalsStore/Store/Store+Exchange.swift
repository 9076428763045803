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
    /// The store's place in its space; nil when it is not joined.
    public func replicaState() async throws -> ReplicaState? {
        try await translated("read") {
            try await database.reading { db in try StoreSchema.exists(db) ? ReplicaState.load(db) : nil }
        }
    }

    /// Keeps in mind whom to trust at the relay's address from now on. Does nothing to a store that is not joined.
    package func remember(_ trust: RelayTrust) async throws {
        try await translated("sync") {
            try await database.write { db in
                if try StoreSchema.exists(db), try ReplicaState.load(db) != nil { try trust.save(Meta(db)) }
            }
        }
    }

    /// Keeps in mind which file holds the relay's token from now on. Does nothing to a store that is not joined.
    package func remember(credentialFile: String) async throws {
        try await translated("sync") {
            try await database.write { db in
                if try StoreSchema.exists(db), try ReplicaState.load(db) != nil { try Meta(db).set(.credentialFile, credentialFile) }
            }
        }
    }

    /// Records other programs' writes and moves what is new into the outbox.
    ///
    /// Children that a program left without parents do what their foreign keys declare, which may take rows back.
    package func prepareOutbox() async throws -> ExchangeStatus {
        if let status = try await looking("sync", { [lastLook] db in try lastLook.ready(db) }) { return status }
        let (status, isUnsettled, isCaughtUp, state) = try await managed("sync") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try exchange.checkLog()
            try step.recordExternal()
            let comparison = try step.schemaComparison()
            try step.filler().fill()
            let status = try exchange.status()
            // Rows in doubt are settled when they are known to be what the log and the outbox come to.
            let isReady = !status.areRowsUnverified && !status.isSpaceUnfinished
            return (
                status, try isReady && UnsettledReferences.first(db) != nil,
                isReady && comparison.isCaughtUp && !status.isPushUnderWay, try FileState(db)
            )
        }
        if isCaughtUp {
            let conflicts = try await takeKept()
            var status = try await prepareOutbox()
            status.conflicts += conflicts
            return status
        }
        if status.schemaVersion > 1, !status.isPushUnderWay, try await adoptSchema() { return try await prepareOutbox() }
        if isUnsettled { return try await settleReferences() }
        lastLook.note(state, ready: status)
        return status
    }

    /// Puts what was kept into the rows, once the store has the tables and columns for it. Does nothing while a push is under
    /// way: what it holds must not be laid on anew.
    ///
    /// - Returns: the conflicts that were settled while the outbox was laid on top.
    @discardableResult
    func takeKept() async throws -> Int {
        let policies = configuration.mergePolicies
        return try await merging("sync") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            guard try step.schemaComparison().isCaughtUp, try !Push.isUnderWay(db), try !UnverifiedRows.isNoted(db) else { return 0 }
            try step.filler().fill()
            let summary = try Self.pull(db, step, exchange.state, policies).takeKept()
            step.forgetComparison()
            return summary.conflicts
        }
    }

    /// Records other programs' writes and moves what is new into the outbox, for whoever only looks: no row is touched, and
    /// a store that must not sync for now is told of as it stands.
    package func updateOutbox() async throws -> ExchangeStatus {
        try await managed("status") { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            // What differs too much is told to whoever syncs.
            guard (try? step.schemaComparison()) != nil else {
                var status = try exchange.status()
                status.outbox += try OutboxFiller.waiting(db)
                return status
            }
            do {
                try step.filler().fill()
            } catch let error as AnnalsError where error.code == .missingKey {
                // What cannot be hashed waits in history, and counts.
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
            let exchange = try ReplicaExchange(db, step.identities)
            let summary = try Self.pull(db, step, exchange.state, policies).settleReferences()
            var status = try exchange.status()
            status.conflicts = summary.conflicts
            return status
        }
    }

    /// - Parameter isWriting: it may write rows, which then bear a time of the store's clock.
    static func pull(
        _ db: Database, _ step: StoreStep, _ state: ReplicaState, _ policies: MergePolicies, isWriting: Bool = true
    ) throws -> PageApplier {
        let session = MergeSession(db, registry: try step.tables())
        session.kept = try DeferredCells.load(db)
        let clock = try step.clock()
        return PageApplier(
            db: db, session: session, state: state, process: step.environment.processName,
            identities: step.identities, layouts: try step.layouts(), limits: step.outboxLimits, cipher: try step.cipher(),
            policies: policies, clock: clock, now: isWriting ? try step.tick() : clock.last)
    }

    /// The push under way, or a new one from the oldest outbox transactions, at its first part; nil when there is nothing
    /// to push.
    package func freezePush() async throws -> FrozenPush? {
        try await continuing { db, step, ready in
            let push = try ReplicaExchange(db, step.identities).freeze(step)
            ready?.isPushUnderWay = push != nil
            return push
        }
    }

    /// Another part of a push; nil when that push was settled meanwhile.
    package func part(_ number: Int, of push: FrozenPush) async throws -> FrozenPush? {
        precondition((0..<push.parts).contains(number), "parts are numbered from 0")
        return try await managed("sync") { db, step in try ReplicaExchange(db, step.identities).part(number, of: push) }
    }

    /// Notes the relay's answer to a push; one that is settled already changes nothing.
    package func settle(_ answer: PushAnswer, to push: FrozenPush) async throws -> SettledPush {
        try await continuing { db, step, ready in
            var exchange = try ReplicaExchange(db, step.identities)
            let settled = try exchange.settle(answer, to: push, step.outboxLimits)
            // What comes of a space's new schema is the outbox's business.
            ready = settled.status.schemaVersion > 1 ? nil : ready.map { _ in settled.status }
            return settled
        }
    }

    /// A step after which the outbox is as ready as it was before: nothing is sealed in it, and nobody else wrote since it was ready.
    ///
    /// - Parameter body: makes of what `prepareOutbox` would have answered before the step what it would answer after; nil is for
    ///   what it would have to find out.
    private func continuing<T: Sendable>(
        _ body: @escaping @Sendable (Database, StoreStep, inout ExchangeStatus?) throws -> T
    ) async throws -> T {
        let (value, ready, state) = try await managed("sync") { [lastLook] db, step in
            var ready = try lastLook.ready(db)
            let value = try body(db, step, &ready)
            return (value, ready, try FileState(db))
        }
        if let ready { lastLook.note(state, ready: ready) }
        return value
    }

    /// Takes in a page of the log and lays the outbox on top, in one SQLite transaction. Parts of a transaction whose
    /// last is not among them are kept until it comes.
    package func apply(_ page: Page) async throws -> AppliedPage {
        var taken = try await applyRowsKeepingEvidence(page)
        guard taken.status.schemaVersion > 1, try await adoptSchema() else { return taken }
        if taken.status.isBehindSchema { taken.conflicts += try await takeKept() }
        let passesUnseen = taken.status.hasPassedUnseen
        taken.status = try await managed("sync") { db, step in try ReplicaExchange(db, step.identities).status() }
        taken.status.hasPassedUnseen = passesUnseen
        return taken
    }

    /// Applies a page in at most three attempts, each of which knows more: one that meets schema entries ends before they are tried, and
    /// one in which an entry does not fit the rows is made again without unsent work in them.
    private func applyRowsKeepingEvidence(_ page: Page) async throws -> AppliedPage {
        var attempt = PageAttempt()
        while true {
            do {
                return try await applyRows(page, attempt)
            } catch let error as AnnalsError {
                if case .untriedSchema? = error.underlying as? ApplyError, attempt.tried == nil {
                    attempt.tried = try await trySchemas(of: page)
                } else if let entry = error.entry, PageAttempt.mayFitWithoutOutbox(entry), !attempt.undoesOutbox {
                    attempt.undoesOutbox = true
                } else {
                    if let found = error.underlying as? ContradictingLog { try await keep(found.evidence) }
                    throw error
                }
            }
        }
    }

    /// Tries a page's schema entries while the file is free.
    private func trySchemas(of page: Page) async throws -> SchemaTrialResults {
        let policies = configuration.mergePolicies
        let schemas = try await merging("sync", commits: false) { db, step in
            let exchange = try ReplicaExchange(db, step.identities)
            return try Self.pull(db, step, exchange.state, policies, isWriting: false).schemas(of: page)
        }
        var tried = SchemaTrialResults()
        try await translated("sync") { for schema in schemas { try tried.note(schema) } }
        return tried
    }

    private func applyRows(_ page: Page, _ attempt: PageAttempt) async throws -> AppliedPage {
        let policies = configuration.mergePolicies
        if page.frames.isEmpty {
            if let status = try await looking("sync", { [lastLook] db in try lastLook.taken(page, db) }) {
                return AppliedPage(status: status)
            }
            // Where there is nothing to apply the connection stays as it is: setting it up has SQLite compile all statements anew.
            let taken = try await managed("sync") { db, step -> (page: AppliedPage, state: FileState)? in
                let exchange = try Self.exchange(db, step, taking: page)
                guard try !step.schemaComparison().isCaughtUp, try UnsettledReferences.first(db) == nil else { return nil }
                return (try Self.take(page, exchange, step, policies, attempt), try FileState(db))
            }
            if let taken {
                lastLook.note(taken.state, taken: page, taken.page.status)
                return taken.page
            }
        }
        let (taken, ready, state) = try await merging("sync") { db, step in
            let exchange = try Self.exchange(db, step, taking: page)
            var conflicts = 0
            if try step.schemaComparison().isCaughtUp {
                conflicts = try Self.pull(db, step, exchange.state, policies).takeKept().conflicts
                step.forgetComparison()
            }
            var taken = try Self.take(page, exchange, step, policies, attempt)
            taken.conflicts += conflicts
            return (taken, try Self.ready(after: taken, db), try FileState(db))
        }
        if let ready { lastLook.note(state, ready: ready) }
        return taken
    }

    /// What `prepareOutbox` would answer after a page was taken in, where that is known: all was recorded and moved before.
    private static func ready(after taken: AppliedPage, _ db: Database) throws -> ExchangeStatus? {
        guard taken.status.schemaVersion <= 1, !taken.status.areRowsUnverified, try UnsettledReferences.first(db) == nil else { return nil }
        var status = taken.status
        status.hasPassedUnseen = false
        return status
    }

    /// Parts that wait for their last may be of a log that the relay lost when it was put back to a backup, and then nothing
    /// that comes continues them. They are pulled again from the position on; nil when none were kept.
    package func dropKeptParts() async throws -> ExchangeStatus? {
        try await managed("sync") { db, step in
            guard try BufferedParts.last(db) != nil else { return nil }
            try BufferedParts.clear(db)
            return try ReplicaExchange(db, step.identities).status()
        }
    }

    /// Own entries that stand in the log ahead of the position.
    package func digestsAhead() async throws -> [Position: Digest] {
        try await translated("sync") { try await database.reading { db in try Outbox.digestsAhead(db) } }
    }

    /// Entries that were passed over as voided, and that no entry of the relay's explains so far.
    package func passedVoids() async throws -> [VoidedEntry] {
        try await translated("sync") { try await database.reading { db in try PassedVoids.load(db) } }
    }

    /// What must be done and hold before a page is taken in.
    private static func exchange(_ db: Database, _ step: StoreStep, taking page: Page) throws -> ReplicaExchange {
        let exchange = try ReplicaExchange(db, step.identities)
        guard page.lineage == exchange.state.lineage else { throw ReplicaExchange.logRolledBack }
        guard try !Push.isUnderWay(db) else { throw ApplyError.pushUnderWay }
        try step.recordExternal()
        try step.schemaComparison()
        try UnverifiedRows.check(db)
        try step.filler().fill()
        return exchange
    }

    private static func take(
        _ page: Page, _ exchange: ReplicaExchange, _ step: StoreStep, _ policies: MergePolicies, _ attempt: PageAttempt
    ) throws -> AppliedPage {
        var exchange = exchange
        var pull = try pull(exchange.db, step, exchange.state, policies, isWriting: !page.frames.isEmpty)
        pull.attempt = attempt
        let summary: PageApplier.Summary
        do {
            summary = try pull.apply(page)
        } catch ApplyError.partialRebaseInvalid {
            // What the attempt did to the schema was undone with it.
            exchange.db.clearSchemaCache()
            step.forgetComparison()
            pull = try Self.pull(exchange.db, step, exchange.state, policies)
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
            conflicts: summary.conflicts, lost: summary.lost)
    }

    /// Looks at the file on the connection that the store writes with, outside of a transaction: waits for nobody.
    private func looking<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await translated(operation) { try await database.writeWithoutTransaction(body) }
    }

    /// A managed step: one write transaction in which strangers' writes can be recorded first.
    func managed<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database, StoreStep) throws -> T) async throws -> T {
        let (configuration, schema, foreign) = (configuration, schema, foreign)
        return try await translated(operation) {
            try await database.writeWithoutTransaction { db in
                try Self.followSchema(db, configuration, schema)
                var result: T?
                try db.inTransaction(.immediate) {
                    try foreign.look(db)
                    try schema.begin(db)
                    result = try body(db, StoreStep(db, configuration, schema))
                    return .commit
                }
                guard let result else { throw AnnalsError(.defect, operation: operation, "a write ended without an outcome") }
                return result
            }
        }
    }

    /// A managed step with the connection's triggers and foreign keys off, as applying needs them.
    /// Without `commits` everything is undone at the end, and only the outcome stays.
    func merging<T: Sendable>(
        _ operation: String, commits: Bool = true, _ body: @escaping @Sendable (Database, StoreStep) throws -> T
    ) async throws -> T {
        let (configuration, schema, foreign) = (configuration, schema, foreign)
        return try await translated(operation) {
            try await database.writeWithoutTransaction { db in
                if commits { try Self.followSchema(db, configuration, schema) }
                let tracked = try Set(schema.tables(db).entries.map(\.definition.name))
                let triggers = try UserTriggers.plan(db, tracked: tracked)
                return try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                    var result: T?
                    try db.inTransaction(.immediate) {
                        try foreign.look(db)
                        try schema.begin(db)
                        let undetected = try UndetectedChanges(db)
                        result = try body(db, StoreStep(db, configuration, schema))
                        if commits { try undetected.tell() }
                        return commits ? .commit : .rollback
                    }
                    if !commits { schema.forgetRolledBack() }
                    guard let result else { throw AnnalsError(.defect, operation: operation, "a write ended without an outcome") }
                    return result
                }
            }
        }
    }

    /// Capture is in order again whatever the step that follows refuses. And which triggers run is decided before the transaction in
    /// which others' changes of the schema are seen.
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
