public import AnnalsCore
package import AnnalsHistory
import AnnalsMerge
public import AnnalsReplica
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// An entry of the conflict journal with the names of its columns and of its two sides.
public struct NamedConflict: Sendable {
    public var conflict: Conflict
    /// The table's columns and key; nil if the store never tracked a table of that name.
    public var layout: TableLayout?
    /// Who wrote the stored value; nil if nobody is known, or if history no longer has the transaction.
    public var storedAuthor: String?
    /// The name of the replica that wrote the stored value; nil if this store does not know it.
    public var storedReplicaName: String?
    /// The name of the replica that wrote the incoming value; nil if this store does not know it.
    public var incomingReplicaName: String?
    /// The changes of columns with the policy `sum` that were not applied.
    package var sums: [RefusedSum] = []
    /// The row that has the values now which a UNIQUE index refused; nil if there is none.
    package var holder: UniqueHolder?

    package struct UniqueHolder: Sendable {
        package var key: [Value]
        /// The columns of the index, and the values in them.
        package var columns: [String]
        package var values: [Value]
    }
}

/// The names of a space's replicas, as far as a store knows them.
package struct KnownReplicas: Hashable, Sendable {
    package var names: [ReplicaID: String] = [:]
    /// The store's own name; nil if it is not joined.
    package var own: String?

    package init(names: [ReplicaID: String] = [:], own: String? = nil) {
        (self.names, self.own) = (names, own.flatMap { $0.isEmpty ? nil : $0 })
    }

    /// Empty for a store that was never joined.
    package init(_ db: Database) throws {
        self.init()
        guard try StoreSchema.exists(db) else { return }
        self = try KnownReplicas(names: ReplicaNames.load(db), own: ReplicaState.load(db)?.name)
    }

    /// Whom a person means by the name of an author or a replica.
    package func writer(named name: String) -> WriterName {
        WriterName(name, replicas: names.filter { $0.value == name }.keys, isOwn: own == name)
    }

    /// The name of the replica on which a transaction was written.
    package func name(of transaction: HistoryTransaction) -> String? {
        if case .imported(let replica, _) = transaction.origin { names[replica] } else { own }
    }
}

extension Store {
    /// The conflict journal, oldest first, in pages.
    ///
    /// - Parameters:
    ///   - after: the id of the last entry of the page before.
    ///   - limit: the maximum number of entries.
    ///   - onlyUnresolved: only entries that wait for a person: a policy left them to a person, and they were not resolved since.
    /// - Returns: an empty list at the end, and for a store that was never joined.
    /// - Throws: `AnnalsError.notTracked` if the database has no history.
    public func conflicts(after: Int64 = 0, limit: Int, onlyUnresolved: Bool = false) async throws -> [NamedConflict] {
        try await translated("conflicts") {
            try await database.reading { [schema] db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.noHistory(operation: "conflicts") }
                guard try StoreSchema.isReplica(db) else { return [] }
                let page = try ConflictJournal.page(db, after: after, limit: limit, onlyUnresolved: onlyUnresolved)
                return try NamedConflict.all(page, db, schema.tables(db))
            }
        }
    }

    /// The number of conflicts in the conflict journal, and of rows that got another key; zero for a store that was never joined.
    package func conflictCounts() async throws -> (conflicts: Int, renumbered: Int) {
        try await read { db in try StoreSchema.isReplica(db) ? ConflictJournal.count(db) : (0, 0) }
    }

    /// The number of conflicts in which a constraint refused the incoming values, and which nobody has decided since.
    package func refusedConflicts() async throws -> Int {
        try await read { db in try StoreSchema.isReplica(db) ? ConflictJournal.refusedCount(db) : 0 }
    }

    /// The number of settled conflicts that get into the conflict journal when the relay accepts this store's transactions.
    package func unsentConflicts() async throws -> Int {
        try await read { db in try StoreSchema.isReplica(db) ? Outbox.conflicts(db) : 0 }
    }

    /// The names of the space's replicas, as far as this store knows them; empty for a store that was never joined.
    package func replicaNames() async throws -> KnownReplicas {
        try await read { db in try KnownReplicas(db) }
    }

    /// Marks journal entries as shown to a person, so that they may be deleted when they are old.
    ///
    /// The mark is local to this store, because users of other replicas have not seen the entries here.
    ///
    /// - Throws: `AnnalsError.busy` at once if another program writes, because a reader should not wait for this.
    public func noteConflictsSeen(_ ids: [Int64]) async throws {
        try await translated("conflicts") {
            try await database.writeWithoutTransaction { [busyTimeout] db in
                try busyTimeout.suspended {
                    try db.inTransaction(.immediate) {
                        guard try StoreSchema.isReplica(db) else { return .rollback }
                        try ConflictJournal.noteSeen(db, ids)
                        return .commit
                    }
                }
            }
        }
    }

    /// Deletes old entries of the conflict journal, with their losing values, from this store.
    ///
    /// - Parameters:
    ///   - age: only entries that the relay received longer ago than this.
    ///   - force: also entries that were never shown to a person, or that wait for a person. Without it these stay, however old
    ///     they are.
    /// - Returns: the number of deleted entries. The newest entry always stays, so that no number is used twice.
    @discardableResult
    public func purgeConflicts(olderThan age: Duration, force: Bool = false) async throws -> Int {
        let limit = configuration.now() - Int64(age / .milliseconds(1))
        return try await managed("purge") { db, _ in
            try StoreSchema.isReplica(db) ? ConflictJournal.purge(db, before: limit, force: force) : 0
        }
    }
}

extension NamedConflict {
    /// Gives entries of the journal the store's names.
    static func all(_ conflicts: [Conflict], _ db: Database, _ tables: TrackedTables) throws -> [NamedConflict] {
        let lists = try TrackedTable.fetchAll(db)
        let names = tables.localNames
        let policies = try MergePolicies(PolicyTable.load(db, for: tables), over: MergePolicies())
        let sides = try ConflictSides(conflicts, db)
        return try conflicts.map { canonical in
            let conflict = canonical.renamed(names)
            let columns = policies[conflict.entry.table]
            let mayHaveSums = conflict.entry.winner == .stored && [.check, .update].contains(conflict.entry.kind)
            let sums = mayHaveSums ? RefusedSum.all(conflict.entry) { columns.policy(ofColumn: $0) == .sum } : []
            // The newest column list is the last one.
            let list = lists.last { $0.first.table.isSameIdentifier(as: canonical.entry.table) }
            return try NamedConflict(
                conflict: conflict, layout: list?.layout, storedAuthor: sides.storedAuthor(of: conflict),
                storedReplicaName: conflict.entry.storedReplica.flatMap { sides.replicas[$0] },
                incomingReplicaName: sides.replicas[conflict.name.replica], sums: sums,
                holder: tables.table(named: conflict.entry.table).flatMap { try $0.holder(of: conflict, db) })
        }
    }
}

extension TrackedTables.Entry {
    /// The row that has the values now which a UNIQUE index refused. Partial indexes and those with expressions are not searched.
    fileprivate func holder(of conflict: Conflict, _ db: Database) throws -> NamedConflict.UniqueHolder? {
        let entry = conflict.entry
        guard entry.kind == .unique, entry.winner == .stored, !conflict.isResolved, let incoming = entry.incoming else { return nil }
        let names = entry.columns.isEmpty ? definition.columns.map(\.name) : entry.columns
        guard names.count == incoming.count else { return nil }
        let key = definition.primaryKey.map { SQL.quote(definition.columns[$0].name) }
        for index in definition.uniqueIndexes where !index.isCoarse {
            let values = index.columns.map { column in
                names.firstIndex { $0.isSameIdentifier(as: column.name ?? "") }.map { incoming[$0] } ?? .null
            }
            guard !values.contains(where: \.isNull) else { continue }
            let terms = index.columns.enumerated().map { "\(SQL.quote($1.name ?? "")) = ?\($0 + 1) COLLATE \(SQL.quote($1.collation))" }
            let statement = try PreparedStatement(
                db,
                "SELECT \(key.joined(separator: ", ")) FROM main.\(SQL.quote(definition.name)) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
            )
            defer { statement.reset() }
            for (number, value) in values.enumerated() { statement.bind(number + 1, value) }
            guard try statement.step() else { continue }
            let columns = index.columns.compactMap(\.name)
            return NamedConflict.UniqueHolder(key: statement.values(0..<key.count), columns: columns, values: values)
        }
        return nil
    }
}

/// The result of resolving a conflict.
public enum ConflictSettlement: Sendable, Hashable {
    /// The row was changed to the requested values, by the transaction with this number.
    case changed(transaction: Int64)
    /// The row had the requested values already. The conflict now counts as resolved.
    case agreed
    /// The row had the requested values already, and the conflict was resolved before. Nothing was changed.
    case nothingToDo
}

extension Store {
    /// Resolves an entry of the conflict journal: the row gets the values of one side, or other values.
    ///
    ///     try await store.resolve(17, taking: .incoming)
    ///     try await store.resolve(18, setting: ["email": .text("ann@example.org")])
    ///
    /// The requested values are compared with the current row, whichever side won before. Differences become a new transaction,
    /// which other replicas apply like any other. The journal entry counts as resolved on all replicas.
    ///
    /// - Parameters:
    ///   - id: the id of the journal entry, from `conflicts`.
    ///   - side: the side that gives the row's values; the incoming side if neither a side nor values are given.
    ///   - values: values by column, which replace those of the side.
    ///   - author: the author in history.
    ///   - again: whether the row is changed if the conflict was resolved before, here or on another replica.
    /// - Throws: `AnnalsError`: `usage` if there is no such journal entry or column, if the entry's values cannot be restored, or if
    ///   the conflict was resolved before and the row would be changed;
    ///   `constraint` if the new row violates one, with table, key and constraint. Nothing is changed then.
    @discardableResult
    public func resolve(
        _ id: Int64, taking side: JournalEntry.Side? = nil, setting values: [String: Value] = [:], author: String? = nil,
        again: Bool = false
    ) async throws -> ConflictSettlement {
        try await managed("resolve") { db, step in
            guard try StoreSchema.exists(db) else { throw StoreSchema.noHistory(operation: "resolve") }
            let found = try StoreSchema.isReplica(db) ? ConflictJournal.find(db, id) : nil
            guard let found else {
                throw AnnalsError(
                    .usage, operation: "resolve", "there is no conflict \(id)", hint: "conflicts(limit:) returns the conflicts",
                    commandHint: "annals conflicts lists them")
            }
            try step.recordExternal()
            let tables = try step.tables()
            guard let table = tables.table(first: found.entry.table) else {
                throw AnnalsError(.notTracked, operation: "resolve", "the table \(found.entry.table) is not tracked any more")
            }
            let conflict = found.renamed(tables.localNames)
            try step.schemaComparison()
            let filler = try step.filler()
            try filler.fill()
            let side = side ?? (values.isEmpty ? .incoming : nil)
            let policies = try MergePolicies(PolicyTable.load(db, for: tables), over: MergePolicies())[table.definition.name]
            let (_, number) = try TransactionRecorder.managedWrite(
                db, author: author, contextName: Resolving.contextName, origin: .undo, step.environment
            ) { db in
                try Resolving(
                    row: ManualEdit(db: db, table: table.definition, tables: tables), conflict: conflict,
                    renumbered: RenumberedKeys(db, with: conflict, tables.localNames),
                    isSummed: { policies.policy(ofColumn: $0) == .sum }
                ).write(side, values)
            }
            if number != nil, conflict.isResolved, !again {
                throw AnnalsError(
                    .usage, operation: "resolve", "conflict \(id) was resolved before, here or on another replica",
                    hint: "Nothing was changed. resolve(\(id), again: true) decides it once more",
                    commandHint: "Nothing was changed. --again decides it once more")
            }
            if let number { try UndetectedChanges.notify(db, after: number - 1) }
            let choice: ConflictResolution.Choice = !values.isEmpty ? .values : side == .stored ? .stored : .incoming
            if number == nil, conflict.isResolved, !again || conflict.resolution == Conflict.Resolution(choice) { return .nothingToDo }
            let decisions = UserDecisions(resolutions: [ConflictResolution(conflict: conflict.name, choice: choice)])
            try filler.append(decisions, with: number, as: step.identities.next(), time: step.tick(), author: author)
            try decisions.apply(db)
            return number.map { .changed(transaction: $0) } ?? .agreed
        }
    }
}

extension Store {
    /// The conflict policies in force: first the space's, then this replica's own, each from the widest scope to the narrowest.
    /// What no policy names is settled by `lastWriterWins`, `keepFirst` and `renumber`.
    ///
    /// - Throws: `AnnalsError.notTracked` if the database has no history.
    public func policies() async throws -> [PolicyInForce] {
        try await read { [schema] db in
            guard try StoreSchema.exists(db) else { throw StoreSchema.noHistory(operation: "policy") }
            return try StoreSchema.isReplica(db) ? PolicyTable.load(db, for: schema.tables(db)) : []
        }
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
    /// - Throws: `AnnalsError`: `usage` for a policy, table or column that does not exist, for an `sql:` expression that SQLite
    ///   cannot parse, and for `sum` on a column with texts or blobs, `notJoined`, `schemaRefused` if the tables do not match the space. Nothing is set then.
    public func setPolicies(_ settings: [PolicySetting], isOverride: Bool = false, author: String? = nil) async throws {
        try await managed("policy") { db, step in
            guard try StoreSchema.exists(db) else { throw StoreSchema.noHistory(operation: "policy") }
            _ = try ReplicaExchange(db, step.identities)
            try step.recordExternal()
            guard settings.count <= WireLimits.maximumDecisions else {
                throw AnnalsError(
                    .usage, operation: "policy", "more than \(WireLimits.maximumDecisions) policies cannot be set at once",
                    hint: "Set them in several calls; nothing was set")
            }
            let tables = try step.tables()
            try PolicyCheck(db, tables: tables.entries.map(\.definition)).check(settings)
            let settings = settings.map { $0.renamed(tables.canonicalNames) }
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
