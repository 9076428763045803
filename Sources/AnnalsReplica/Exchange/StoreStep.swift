package import AnnalsCore
package import AnnalsHistory
package import AnnalsSchema
package import AnnalsWire
package import GRDB

/// What a managed step does around its work: seals strangers' writes before, records its own after, keeps the clock.
package struct StoreStep {
    package let db: Database
    package let environment: CaptureEnvironment
    package let outboxLimits: OutboxLimits
    package let identities: NewIdentities
    private let schema: SchemaCache
    private let spaceKeys: SpaceKeyRing?

    package init(
        _ db: Database, environment: CaptureEnvironment, outboxLimits: OutboxLimits, identities: NewIdentities, spaceKeys: SpaceKeyRing?,
        schema: SchemaCache
    ) {
        self.db = db
        self.schema = schema
        self.outboxLimits = outboxLimits
        self.spaceKeys = spaceKeys
        self.identities = identities
        var environment = environment
        environment.didRecord = { db, info, number in
            try UnsettledReferences.note(db, info, number) { try schema.tables(db) }
            if info.origin == .external { try UndetectedChanges.tell(db, after: number - 1) }
        }
        self.environment = environment
    }

    /// Makes what other programs committed since the last step into a transaction; nil when there was nothing.
    @discardableResult
    package func recordExternal() throws -> Int64? {
        let (number, drift) = try TransactionRecorder.recordExternalReportingDrift(db, environment)
        // A table may have another name in Annals' own tables now, at the same version of the schema.
        if !drift.findings.isEmpty { schema.forget() }
        return number
    }

    /// The tracked tables as they are declared now.
    package func tables() throws -> TrackedTables {
        try schema.tables(db)
    }

    /// What the table references in stored bodies mean.
    package func layouts() throws -> LayoutNames {
        try schema.layouts(db)
    }

    /// How the tracked tables stand to the space's.
    ///
    /// Throws `AnnalsError` of code schemaRefused where they are declared otherwise.
    @discardableResult
    package func schemaComparison() throws -> SchemaComparison {
        try schema.comparison(db)
    }

    /// After what the store lacks was changed.
    package func forgetComparison() {
        schema.forget()
    }

    /// What seals and opens what the relay keeps of the store's space; nil where the space is not sealed, or there is none.
    ///
    /// Throws `AnnalsError` of code missingKey.
    package func cipher() throws -> SpaceCipher? {
        try ReplicaState.load(db)?.cipher(spaceKeys, operation: "sync")
    }

    /// Moves what is new in history into the outbox; the space's key is needed only where something is.
    package func filler() throws -> OutboxFiller {
        OutboxFiller(
            db: db, tables: try tables(), limits: outboxLimits, footprintKey: { try cipher()?.footprintKey ?? .none },
            author: { try Meta(db).text(.replicaName) },
            offer: { filler in
                // What cannot be told to the space is told to whoever syncs.
                guard let ahead = try? schemaComparison().ahead, !ahead.isEmpty else { return }
                try filler.offer(ahead) { TransactionInfo(id: identities.next(), time: try tick(), origin: .migration) }
            })
    }

    /// The store's clock, past everything written and seen so far.
    package func clock() throws -> HybridClock {
        try StoreClock.load(db)
    }

    /// The next time of the store's clock.
    package func tick() throws -> HybridTime {
        var clock = try clock()
        let time = clock.tick(now: environment.now())
        try StoreClock.save(clock, db)
        return time
    }

    /// The number of history's newest transaction; zero before the first.
    package func newestTransaction() throws -> Int64 {
        try TransactionTable(db).newest() ?? 0
    }
}
