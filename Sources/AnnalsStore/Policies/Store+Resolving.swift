public import AnnalsCore
import AnnalsWire
import GRDB

extension Store {
    /// Settles a line of the conflict journal otherwise, or for good: the row gets the values that lost, or others.
    ///
    ///     try await store.resolve(17, taking: .incoming)
    ///     try await store.resolve(18, setting: ["email": .text("ann@example.org")])
    ///
    /// That is a new transaction, which other replicas take in like any other, and the line counts as resolved on all of
    /// them. Taking the side that won changes no row and says that a person agrees.
    ///
    /// - Parameters:
    ///   - id: of the line, as `conflicts` gives it.
    ///   - values: by column; what they leave out comes from the side that is taken.
    /// - Throws: `AnnalsError`: `usage` when there is no such line or column, `constraint` when the row as decided breaks
    ///   one. Nothing is changed then.
    public func resolve(
        _ id: Int64, taking side: JournalEntry.Side = .incoming, setting values: [String: Value] = [:], author: String? = nil
    ) async throws {
        try await managed("resolve") { db, step in
            guard try ReplicaTables.exist(db), let conflict = try ConflictJournal.find(db, id) else {
                throw AnnalsError(.usage, operation: "resolve", "there is no conflict \(id)", hint: "annals conflicts lists them")
            }
            let tables = try step.tables()
            guard let table = tables.entries.first(where: { $0.definition.name.isSameIdentifier(as: conflict.entry.table) }) else {
                throw AnnalsError(.notTracked, operation: "resolve", "the table \(conflict.entry.table) is not tracked any more")
            }
            let filler = OutboxFiller(db: db, tables: tables, limits: step.outboxLimits)
            try step.seal()
            try filler.fill()
            let choice: ConflictResolution.Choice = !values.isEmpty ? .values : side == .stored ? .stored : .incoming
            let decisions = HumanDecisions(resolutions: [ConflictResolution(conflict: conflict.name, choice: choice)])
            let (_, number) = try Sealing.managedWrite(
                db, author: author, contextName: "resolve", step.environment
            ) { db in
                try Resolving(db: db, table: table.definition, entry: conflict.entry).write(side, values)
            }
            try filler.append(decisions, with: number, as: step.identities.next(), time: step.tick(), author: author)
            try decisions.apply(db)
        }
    }
}

/// Brings a row to what a person decided.
struct Resolving {
    let db: Database
    let table: TableDefinition
    let entry: JournalEntry

    func write(_ side: JournalEntry.Side, _ values: [String: Value]) throws {
        if side == entry.winner, values.isEmpty { return }
        let names = table.columns.map(\.name)
        let decided = try decided(side, values, names)
        let key = try entry.key.count == table.primaryKey.count ? entry.key : { throw outdated }()
        let current = try row(at: key)
        guard let decided else {
            if current != nil { try delete(key) }
            return
        }
        if current != nil {
            try update(key, decided)
        } else {
            guard let whole = try whole(side) else {
                throw AnnalsError(
                    .usage, operation: "resolve", "the row of \(table.name) is gone, and the journal holds only some of its columns",
                    hint: "Insert it anew with plain SQL; annals conflicts shows what it holds")
            }
            try insert(whole.merging(decided) { $1 })
        }
    }

    /// The columns to be written; nil when the row is to go.
    private func decided(_ side: JournalEntry.Side, _ values: [String: Value], _ names: [String]) throws -> [String: Value]? {
        var decided: [String: Value] = [:]
        let rows = side == .stored ? entry.stored : entry.incoming
        if let rows {
            let columns = entry.columns.isEmpty ? names : entry.columns
            guard columns.count == rows.count else { throw outdated }
            decided = Dictionary(zip(columns, rows)) { $1 }
        } else if values.isEmpty {
            return nil
        }
        for (column, value) in values {
            guard let name = names.first(where: { $0.isSameIdentifier(as: column) }) else {
                throw AnnalsError(.usage, operation: "resolve", "the table \(table.name) has no column \(column)")
            }
            decided[name] = value
        }
        return decided
    }

    /// The side's whole row, where the journal holds it.
    private func whole(_ side: JournalEntry.Side) throws -> [String: Value]? {
        guard entry.columns.isEmpty, let row = (side == .stored ? entry.stored : entry.incoming) ?? entry.base else { return nil }
        guard row.count == table.columns.count else { throw outdated }
        return Dictionary(zip(table.columns.map(\.name), row)) { $1 }
    }

    private var outdated: AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "resolve", "the columns of \(table.name) have changed since the conflict",
            hint: "Change the row with plain SQL instead; annals conflicts shows the values")
    }

    // MARK: Rows

    private var isKey: String {
        table.primaryKey.enumerated().map { "\(SQL.quote(table.columns[$1].name)) IS ?\($0 + 1)" }.joined(separator: " AND ")
    }

    private func row(at key: [Value]) throws -> [Value]? {
        let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        let statement = try PreparedStatement(db, "SELECT \(columns) FROM main.\(SQL.quote(table.name)) WHERE \(isKey)")
        for (place, value) in key.enumerated() { statement.bind(place + 1, value) }
        return try statement.step() ? statement.values(0..<table.columns.count) : nil
    }

    private func delete(_ key: [Value]) throws {
        try run("DELETE FROM main.\(SQL.quote(table.name)) WHERE \(isKey)", key)
    }

    private func update(_ key: [Value], _ values: [String: Value]) throws {
        let columns = values.keys.sorted()
        let set = columns.enumerated().map { "\(SQL.quote($1)) = ?\(key.count + $0 + 1)" }.joined(separator: ", ")
        try run("UPDATE main.\(SQL.quote(table.name)) SET \(set) WHERE \(isKey)", key + columns.compactMap { values[$0] })
    }

    private func insert(_ values: [String: Value]) throws {
        let columns = values.keys.sorted()
        let places = columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        try run(
            "INSERT INTO main.\(SQL.quote(table.name)) (\(columns.map(SQL.quote).joined(separator: ", "))) VALUES (\(places))",
            columns.compactMap { values[$0] })
    }

    private func run(_ sql: String, _ values: [Value]) throws {
        let statement = try PreparedStatement(db, sql)
        for (place, value) in values.enumerated() { statement.bind(place + 1, value) }
        try statement.run()
    }
}
