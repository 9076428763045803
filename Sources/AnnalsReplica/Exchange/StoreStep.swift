package import AnnalsCore
package import AnnalsHistory
package import AnnalsSchema
package import AnnalsWire
package import GRDB

/// The frame of a step of an exchange: records external writes before the step and its own writes after it, and keeps the clock.
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
            if info.origin == .external { try UndetectedChanges.notify(db, after: number - 1) }
        }
        self.environment = environment
    }

    /// Records the commits of other programs since the last step as a transaction; nil if there were none.
    @discardableResult
    package func recordExternal() throws -> Int64? {
        let (number, drift) = try TransactionRecorder.recordExternalReportingDrift(db, environment)
        // A table may have another name in Annals' own tables now, although SQLite's schema version is the same.
        if !drift.findings.isEmpty { schema.forget() }
        return number
    }

    /// The tracked tables in their current declaration.
    package func tables() throws -> TrackedTables {
        try schema.tables(db)
    }

    /// The layouts that the table references in stored bodies refer to.
    package func layouts() throws -> LayoutNames {
        try schema.layouts(db)
    }

    /// Compares the tracked tables with the space's schema.
    ///
    /// Throws `AnnalsError` with code `schemaRefused` if they are declared differently.
    @discardableResult
    package func schemaComparison() throws -> SchemaComparison {
        try schema.comparison(db)
    }

    /// Ends the history of tables that the space has removed.
    ///
    /// - Parameters:
    ///   - tables: canonical names.
    ///   - schemas: With `take`, the tables are dropped if nothing uses them.
    package func release(_ tables: [String], _ schemas: NewSchemas) throws {
        guard !tables.isEmpty else { return }
        try Tracking.release(tables, db)
        schema.forget()
        if try schemas.takes(db) { _ = try SchemaAdoption.drop(tables.map { SpaceRemoval(table: $0) }, db, self) }
    }

    /// To be called after the missing schema was changed.
    package func forgetComparison() {
        schema.forget()
    }

    /// Seals and opens the data that the relay has of the store's space; nil if the space is not encrypted, or the store is not joined.
    ///
    /// Throws `AnnalsError` with code `missingKey`.
    package func cipher() throws -> SpaceCipher? {
        try ReplicaState.load(db)?.cipher(spaceKeys, operation: "sync")
    }

    /// Moves new transactions of history to the outbox. It asks for the space's key only if there are any.
    package func filler() throws -> OutboxFiller {
        OutboxFiller(
            db: db, tables: try tables(), limits: outboxLimits, footprintKey: { try cipher()?.footprintKey ?? .none },
            replicaName: { try Meta(db).text(.replicaName) },
            offer: { filler in
                // An error of the comparison is ignored here. The sync reports it.
                guard let additions = try? schemaComparison().additions, !additions.isEmpty else { return }
                try filler.offer(additions) { TransactionInfo(id: identities.next(), time: try tick(), origin: .migration) }
            },
            offerConstraints: { filler in
                guard let additions = try? schemaComparison().additions else { return }
                try filler.offerConstraints(additions.tightened) {
                    TransactionInfo(id: identities.next(), time: try tick(), origin: .migration)
                }
            })
    }

    /// The store's clock, at or after every time that was written or seen.
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

    /// The number of the newest transaction of history; zero if there is none.
    package func newestTransaction() throws -> Int64 {
        try TransactionTable(db).newest() ?? 0
    }
}
