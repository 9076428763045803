import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
import Foundation
public import GRDB

/// Reads history inside one database access: transactions in local order, and their changes.
///
///     let reader = try HistoryReader(db)
///     try reader.forEachTransaction(HistoryRequest(after: token)) { transaction in
///         try reader.forEachChange(in: transaction) { change in print(change.table, change.kind, change.key) }
///         return true
///     }
///
/// The reader holds only the current row, so memory does not grow with the history, and a page costs only itself. Writes of other
/// programs are in history after they are recorded.
public final class HistoryReader {
    package let bounds: HistoryBounds
    private let db: Database
    private let changes: NetChanges
    /// For each table, by folded name, the ids of its column lists.
    private var layouts: [String: [Int64]] = [:]
    private var names: [Int64: String] = [:]

    /// - Throws: `AnnalsError` with code `notTracked` if the database has no history.
    public convenience init(_ db: Database) throws {
        guard try db.tableExists(OwnTables.transactions) else { throw StoreSchema.notTracked }
        try self.init(db, tables: TrackedTables.load(db))
    }

    package init(_ db: Database, tables: TrackedTables) throws {
        bounds = try HistoryBounds(db)
        self.db = db
        changes = try NetChanges(db, tables: tables)
        for (id, name) in try TrackedTable.names(db) {
            layouts[name.foldedIdentifier, default: []].append(id)
            names[id] = name
        }
    }

    // MARK: Transactions

    /// One transaction by its number; nil if history does not have it.
    public func transaction(_ number: Int64) throws -> HistoryTransaction? {
        guard number > bounds.oldest.number else { return nil }
        return try TransactionTable(db).row(number).map(decode)
    }

    /// The transactions of a request, oldest first. They are all in memory at once, so set a limit.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown`, or `notTracked` for a table that has no history.
    public func transactions(_ request: HistoryRequest) throws -> [HistoryTransaction] {
        var found: [HistoryTransaction] = []
        try forEachTransaction(request) { transaction in
            found.append(transaction)
            return true
        }
        return found
    }

    /// The number of transactions that a request finds.
    public func count(_ request: HistoryRequest) throws -> Int {
        var count = 0
        try forEachTransaction(request) { _ in
            count += 1
            return true
        }
        return count
    }

    /// Visits the transactions of a request, oldest first, until `visit` returns false.
    public func forEachTransaction(_ request: HistoryRequest, _ visit: (HistoryTransaction) throws -> Bool) throws {
        let query = try Query(request, bounds, ids: ids(of: request), db)
        var rest = request.maximum ?? .max
        var last = query.after
        while rest > 0 {
            let page = try TransactionTable(db).rows(
                where: query.condition, [last] + query.arguments, limit: HistoryLimits.pageTransactions)
            for row in page {
                let transaction = try decode(row)
                last = transaction.number
                guard try !request.needsChange || hasChange(transaction, request) else { continue }
                guard try visit(transaction) else { return }
                rest -= 1
                if rest == 0 { return }
            }
            if page.count < HistoryLimits.pageTransactions { return }
        }
    }

    private func decode(_ row: GRDB.Row) throws -> HistoryTransaction {
        let id: Data = try row.value("id")
        let number: Int64 = try row.number("number")
        let milliseconds: Int64 = try row.value("time")
        let tables: String = try row.value("tables")
        guard let id = TransactionID(bytes: id), let origin = TransactionOrigin(rawValue: try row.value("origin")) else {
            throw Corruption(OwnTables.transactions)
        }
        // A table that a migration changed has an old id and a new id.
        var tableNames: [String] = []
        for list in TransactionTable.lists(tables) {
            if let name = names[list], !tableNames.contains(name) { tableNames.append(name) }
        }
        return HistoryTransaction(
            number: number, id: id, token: HistoryToken(number: number, store: bounds.storeID),
            timestamp: Date(timeIntervalSince1970: Double(milliseconds) / 1_000), author: try row.value("author"),
            contextName: try row.value("context"),
            process: try row.value("process"), origin: try decode(origin, row), tables: tableNames)
    }

    private func decode(_ origin: TransactionOrigin, _ row: GRDB.Row) throws -> HistoryTransaction.Origin {
        switch origin {
        case .local, .undo: return .local
        case .external: return .external
        case .migration: return .migration
        case .rebase: return .rebase
        case .imported:
            let bytes: Data? = try row.value("replica")
            let position: Int64? = try row.value("position")
            guard let replica = bytes.flatMap({ ReplicaID(bytes: $0) }), let position else {
                throw Corruption("\(OwnTables.transactions).replica")
            }
            return .imported(replica: replica, position: Position(position))
        }
    }

    private func ids(of request: HistoryRequest) throws -> [Int64]? {
        guard !request.tableNames.isEmpty else { return nil }
        return try request.tableNames.flatMap { name in
            guard let ids = layouts[name.foldedIdentifier] else {
                throw AnnalsError(
                    .notTracked, operation: "history", "the table \(name) has no history", hint: "status() lists the tracked tables",
                    commandHint: "annals status lists the tables")
            }
            return ids
        }
    }

    // MARK: Changes

    /// Visits the net change of each row in a transaction, parents' tables first. With a request, visits only the changes that
    /// match it.
    public func forEachChange(
        in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest(), _ visit: (HistoryChange) throws -> Void
    ) throws {
        let filter = ChangeFilter(request, changes.tables)
        func pass(_ row: NetChange, _ layout: TableLayout) throws {
            let change = HistoryChange(row, layout: layout)
            if filter.isMeant(change) { try visit(change) }
        }
        let sections = try sections(of: transaction, request)
        for part in try changes.parts(of: sections) {
            if part.sections.count > 1 {
                try changes.forEachRow(in: part) { try pass($0, part.entry.definition.layout) }
            } else if let section = part.sections.first {
                // The columns that the table had then, under their current names.
                let layout = try changes.presentLayout(section.layout)
                try changes.forEachRow(in: section) { try pass($0, layout) }
            }
        }
        for section in try sections.filter({ try changes.translation($0.layout) == nil }) {
            let layout = try changes.layout(section.layout).layout
            try changes.forEachRow(in: section) { try pass($0, layout) }
        }
    }

    /// The net change of each row in a transaction. For large transactions use `forEachChange`.
    public func changes(
        in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()
    ) throws -> [HistoryChange] {
        var found: [HistoryChange] = []
        try forEachChange(in: transaction, request) { found.append($0) }
        return found
    }

    private func sections(of transaction: HistoryTransaction, _ request: HistoryRequest) throws -> [NetChanges.Section] {
        let wanted = try ids(of: request)
        return try changes.sections(of: transaction.number).filter { wanted?.contains($0.layout) ?? true }
    }

    /// Visits each single change of each row in a transaction, with its time, also those that a later one took back. With a
    /// request, visits only the steps that match it.
    ///
    ///     try reader.forEachStep(in: transaction) { step in print(step.time ?? transaction.timestamp, step.change.kind) }
    ///
    /// The steps come table after table, parents' tables first, and within a table in the order in which they happened. Their times
    /// give the order between tables, to the millisecond of the clock of the machine that wrote. Each step has the columns that the
    /// table had then, under their current names. Memory does not grow with the size of the transaction.
    ///
    /// - Throws: `AnnalsError` with code `notTracked` for a table that has no history, and errors of `visit`.
    public func forEachStep(
        in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest(), _ visit: (HistoryStep) throws -> Void
    ) throws {
        let filter = ChangeFilter(request, changes.tables)
        let sections = try sections(of: transaction, request)
        let ended = try sections.filter { try changes.translation($0.layout) == nil }
        for section in try changes.parts(of: sections).flatMap(\.sections) + ended {
            // As for changes: the columns of then, with the names of now if the table is still tracked.
            let layout = try changes.presentLayout(section.layout)
            try changes.forEachStep(in: section) { step, time in
                guard step.old != step.new else { return }
                let change = HistoryChange(NetChange(old: step.old, new: step.new, leftOut: step.leftOut), layout: layout)
                if filter.isMeant(change) { try visit(HistoryStep(change: change, time: time)) }
            }
        }
    }

    private func hasChange(_ transaction: HistoryTransaction, _ request: HistoryRequest) throws -> Bool {
        do {
            try forEachChange(in: transaction, request) { _ in throw Found() }
            return false
        } catch is Found {
            return true
        }
    }

    /// Ends a visit at the first change.
    private struct Found: Error {}
}

/// The row and the columns of a request, for changes.
private struct ChangeFilter {
    private let columns: Set<String>
    private let wholeRowsCount: Bool
    private let row: RowIdentity?
    private let collations: [String]

    init(_ request: HistoryRequest, _ tables: TrackedTables) {
        columns = Set(request.columnNames.map(\.foldedIdentifier))
        (wholeRowsCount, row) = (request.wholeRowsCount, request.row)
        let entry = row == nil ? nil : request.tableNames.first.flatMap { tables.table(named: $0) }
        collations = entry.map { IdentityRule($0.definition).collations } ?? []
    }

    /// The row's key before and after the change.
    private func keys(of change: HistoryChange) -> [RowIdentity] {
        var moved = change.key
        for column in change.columns {
            if let index = change.keyColumns.firstIndex(of: column.name), let new = column.new { moved[index] = new }
        }
        return [change.key, moved].map { key in .key(zip(key, collations).map { IdentityRule.folded($0, collation: $1) }) }
    }

    func isMeant(_ change: HistoryChange) -> Bool {
        if let row, !keys(of: change).contains(row) { return false }
        guard !columns.isEmpty else { return true }
        guard change.kind == .update else { return wholeRowsCount }
        return change.columns.contains { columns.contains($0.name.foldedIdentifier) }
    }
}

/// A request as SQL. The first argument is the number after which to continue.
private struct Query {
    let after: Int64
    let condition: String
    let arguments: StatementArguments

    init(_ request: HistoryRequest, _ bounds: HistoryBounds, ids: [Int64]?, _ db: Database) throws {
        switch request.after {
        case nil: after = bounds.oldest.number
        case .token(let token):
            let isAccepted = bounds.complete.number <= request.acceptedGap
            after = try (isAccepted ? bounds.check(token) : bounds.checkComplete(token)).number
        case .moment(let moment): after = try bounds.token(atMilliseconds: moment, db, named: "the date").number
        }
        var terms = ["number > ?"]
        var arguments: StatementArguments = []
        switch request.before {
        case nil: break
        case .token(let token):
            terms.append("number < ?")
            arguments += [try bounds.check(token).number]
        case .moment(let moment):
            // The last transaction was committed one millisecond earlier, or holds writes of that time and later ones.
            let token = try bounds.token(atMilliseconds: moment - 1, db, named: "the date")
            terms.append("number <= ?")
            arguments += [try HistoryPoint(token, milliseconds: moment - 1, db).dividedTransaction ?? token.number]
        }
        if let authors = request.authors {
            terms.append("(" + authors.map { _ in "author IS ?" }.joined(separator: " OR ") + ")")
            arguments += StatementArguments(authors)
        }
        if let condition = request.writer?.condition {
            terms.append(condition.sql)
            arguments += condition.arguments
        }
        for author in request.excludedAuthors {
            terms.append("author IS NOT ?")
            arguments += [author]
        }
        if let origins = request.origins {
            terms.append("(? >> origin) & 1")
            arguments += [origins.rawValue]
        }
        if let ids { terms.append(TransactionTable.changed(ids)) }
        condition = terms.joined(separator: " AND ")
        self.arguments = arguments
    }
}
