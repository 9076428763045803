import AnnalsCore
import AnnalsSchema
import AnnalsWire
import GRDB

/// What a managed step does around its work: seals strangers' writes before, records its own after, keeps the clock.
struct ManagedStep {
    let db: Database
    let environment: CaptureEnvironment
    let outboxLimits: OutboxLimits
    let identities: NewIdentities
    private let schema: SchemaCache
    private let spaceKeys: SpaceKeyRing?

    init(_ db: Database, _ configuration: Store.Configuration, _ schema: SchemaCache = SchemaCache()) {
        self.db = db
        self.schema = schema
        outboxLimits = configuration.outboxLimits
        spaceKeys = configuration.spaceKeys
        let identities = configuration.identities
        self.identities = identities
        var environment = CaptureEnvironment(
            now: configuration.now, makeTransactionID: { identities.next() }, makeStoreID: { identities.next() },
            processName: configuration.process)
        environment.largeValue = configuration.largeValue
        environment.didRecord = { db, info, number in
            try UnsettledReferences.note(db, info, number) { try schema.tables(db) }
            if info.origin == .external { try UndetectedChanges.tell(db, after: number - 1) }
        }
        self.environment = environment
    }

    /// Makes what other programs committed since the last step into a transaction; nil when there was nothing.
    @discardableResult
    func seal() throws -> Int64? {
        let (number, drift) = try Sealing.sealReportingDrift(db, environment)
        // A table may have another name in Annals' own tables now, at the same version of the schema.
        if !drift.findings.isEmpty { schema.forget() }
        return number
    }

    /// The tracked tables as they are declared now.
    func tables() throws -> TrackedTables {
        try schema.tables(db)
    }

    /// What the table references in stored bodies mean.
    func layouts() throws -> LayoutNames {
        try schema.layouts(db)
    }

    /// How the tracked tables stand to the space's.
    ///
    /// Throws `AnnalsError` of code schemaRefused where they are declared otherwise.
    @discardableResult
    func schemaStanding() throws -> SchemaStanding {
        try schema.standing(db)
    }

    /// After what the store lacks was changed.
    func forgetStanding() {
        schema.forget()
    }

    /// What seals and opens what the relay keeps of the store's space; nil where the space is not sealed, or there is none.
    ///
    /// Throws `AnnalsError` of code missingKey.
    func cipher() throws -> SpaceCipher? {
        try ReplicaState.load(db)?.cipher(spaceKeys, operation: "sync")
    }

    /// Moves what is new in history into the outbox; the space's key is needed only where something is.
    func filler() throws -> OutboxFiller {
        OutboxFiller(
            db: db, tables: try tables(), limits: outboxLimits, footprintKey: { try cipher()?.footprintKey ?? .none },
            author: { try Meta(db).text(.replicaName) },
            offer: { filler in
                // What cannot be told to the space is told to whoever syncs.
                guard let ahead = try? schemaStanding().ahead, !ahead.isEmpty else { return }
                try filler.offer(ahead) { TransactionInfo(id: identities.next(), time: try tick(), origin: .migration) }
            })
    }

    /// The store's clock, past everything written and seen so far.
    func clock() throws -> HybridClock {
        try StoreClock.load(db)
    }

    /// The next time of the store's clock.
    func tick() throws -> HybridTime {
        var clock = try clock()
        let time = clock.tick(now: environment.now())
        try StoreClock.save(clock, db)
        return time
    }

    /// The number of history's newest transaction; zero before the first.
    func newestTransaction() throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(number) FROM main.annals_transactions") ?? 0
    }
}
