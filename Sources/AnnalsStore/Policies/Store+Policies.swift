public import AnnalsCore
public import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import GRDB

extension Store {
    /// The conflict policies in force: first the space's, then this replica's own, each from the widest scope to the narrowest.
    /// What no policy names is settled by `lastWriterWins`, `keepFirst` and `renumber`.
    public func policies() async throws -> [PolicyInForce] {
        try await read { [schema] db in try StoreSchema.isReplica(db) ? PolicyTable.load(db, for: schema.tables(db)) : [] }
    }

    /// Sets conflict policies of the space, which reach every replica through the log, or of this replica only.
    ///
    ///     try await store.setPolicies([PolicySetting(table: "stock", column: "pieces", aspect: .update, policy: "sum")])
    ///
    /// A setting without a policy removes an earlier one. Conflicts that are settled already do not change.
    ///
    /// - Parameters:
    ///   - settings: one for each thing to settle.
    ///   - isOverride: the policies apply only to this replica's own transactions.
    ///   - author: the author in history.
    /// - Throws: `AnnalsError`: `usage` for a policy, table or column that does not exist and for an `sql:` expression that SQLite
    ///   cannot parse, `notJoined`, `schemaRefused` if the tables do not match the space. Nothing is set then.
    public func setPolicies(_ settings: [PolicySetting], isOverride: Bool = false, author: String? = nil) async throws {
        try await managed("policy") { db, step in
            _ = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            guard settings.count <= WireLimits.maximumDecisions else {
                throw AnnalsError(
                    .usage, operation: "policy", "more than \(WireLimits.maximumDecisions) policies cannot be set at once",
                    hint: "Set them in several calls; nothing was set")
            }
            let tables = try step.tables()
            try PolicyCheck(tables: tables.entries.map(\.definition)).check(settings)
            let settings = settings.map { $0.renamed(tables.firstNames) }
            if isOverride { return try PolicyTable.set(db, settings, isOverride: true) }
            // Names that the space does not know must not get into the outbox.
            try step.schemaComparison()
            let filler = try step.filler()
            try filler.fill()
            let decisions = UserDecisions(policies: settings)
            try filler.append(decisions, with: nil, as: step.identities.next(), time: step.tick(), author: author)
            try decisions.apply(db)
        }
    }
}
