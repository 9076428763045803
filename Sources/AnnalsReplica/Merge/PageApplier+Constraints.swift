import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import AnnalsWire
import GRDB

/// Constraints that this store has and the space does not have yet; see `SchemaAdditions.tightened`.
///
/// The log, and the rows without the outbox, may violate them. So tables with such constraints are loose while the outbox is undone and
/// entries are applied (`LooseTables`). Undone work that is older than the constraints is repeated on loose tables, and all later work on
/// tables with their constraints.
extension PageApplier {
    /// The names of tables here with such constraints, at the space's schema in force.
    private func tightened() throws -> [String] {
        guard !stricter.isEmpty, let space = try SpaceSchema.load(db) else { return [] }
        let additions = try SchemaComparison(session.registry, space, missingSchema: MissingSchema.load(db)).additions
        return additions.tightened.compactMap { session.registry.table(first: $0.name)?.definition.name }
    }

    /// To be called before rows get states that may violate such constraints. The tables keep the constraints that the space has.
    ///
    /// - Parameter onlyRemoves: Whether loose tables keep no constraint that they do not have now.
    func loosen(onlyRemoves: Bool = false) throws {
        guard !stricter.isEmpty else { return }
        // Their conflict clauses are read from the declaration.
        for name in stricter { _ = try session.table(named: name) }
        try loosen(stricter, onlyRemoves: onlyRemoves)
    }

    private func loosen(_ names: [String], onlyRemoves: Bool) throws {
        guard let space = try SpaceSchema.load(db) else { return }
        try loose.loosen(
            names.compactMap { name in
                guard let entry = session.registry.table(named: name), let known = space.table(named: entry.first.name) else { return nil }
                return (entry.definition.name, LooseTables.Level(entry, known))
            }, onlyRemoves: onlyRemoves)
    }

    /// To be called before an outbox transaction is repeated. Gives tables the constraints that the space has now, and those that it gets
    /// with the transaction.
    ///
    /// - Parameter entry: the schema entry of the transaction; nil before the first one.
    func tighten(before entry: SchemaEntry?) throws {
        guard loose.isLoose else { return }
        guard let entry else {
            let names = try attempt.enforcesConstraints ? [] : tightened()
            try loose.tighten(except: names)
            return try loosen(names, onlyRemoves: false)
        }
        try loose.tighten(
            except: stricter.filter { name in
                session.registry.table(named: name).map { !entry.redeclares($0.first.name) } ?? true
            })
    }

    /// To be called after the rows and their history were written. A replay cannot go back through states that violate a constraint, so
    /// older tokens expire.
    func endLooseStates() throws {
        guard loose.wasLoose else { return }
        try loose.tighten()
        let tables = stricter.compactMap { session.registry.table(named: $0)?.id }
        try Drift.expire(tables, before: TransactionTable(db).newest() ?? 0, db)
    }

    // MARK: Before the store rebuilds tables with new constraints

    /// Undoes the whole outbox.
    package func undoAll() throws -> [OutboxTransaction] {
        var pull = self
        pull.policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        try PendingSchemaEntries.moveFirst(db)
        return try pull.undo(.all(db))
    }

    /// Repeats the undone outbox on the rebuilt tables.
    package func repeatAll(_ transactions: [OutboxTransaction]) throws {
        var pull = self
        pull.policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        _ = try pull.rebase(.all(db), transactions, known: [], RowIdentityRecorder(), relayTime: now.milliseconds)
        try session.untrackedChildren.settle()
        try HighestKeys.save(db, session.highestKeys)
    }
}
