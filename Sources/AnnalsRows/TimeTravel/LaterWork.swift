import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import GRDB

/// Finds the transactions that are in the way of a revert: those that changed its obstacles later.
///
/// The rows are searched backward together, as `BlameWalk` searches one row. Each transaction that SQLite finds for a row's key is
/// read once, and its net changes decide. The search ends when enough transactions are found.
struct LaterWork {
    private struct Watched {
        /// The index among the obstacles.
        var index: Int
        var entry: TrackedTables.Entry
        var key: [Value]
        var identity: RowIdentity
        var first: [Int: Int64]
        var searches: [KeySearch]
        var floor: Int64
        /// The newest transaction with a raw change of the key that was not read yet.
        var next: Int64?

        mutating func advance(before number: Int64) throws {
            next = nil
            for search in searches {
                guard let found = try search.newest(key, before: number) else { continue }
                next = found > floor ? found : nil
                return
            }
        }
    }

    private let changes: NetChanges
    private let reader: HistoryReader
    private let undoes: (HistoryTransaction) -> Bool
    private let parts: (Int64) throws -> [NetChanges.Part]
    private var watched: [Watched] = []

    init(_ db: Database, _ changes: NetChanges, _ obstacles: RevertObstacles, of source: any RevertSource) throws {
        self.changes = changes
        undoes = { source.undoes($0) }
        parts = { try source.laterParts(of: $0) ?? changes.parts(of: $0) }
        reader = try HistoryReader(db, tables: changes.tables)
        for (index, noted) in obstacles.noted.enumerated() {
            guard let entry = noted.entry, let oldest = noted.first.values.min() else { continue }
            let (searches, floor) = try KeySearch.all(db, of: entry.definition, changes)
            let rule = IdentityRule(entry.definition)
            var row = Watched(
                index: index, entry: entry, key: noted.obstacle.key,
                identity: .key(zip(noted.obstacle.key, rule.collations).map { IdentityRule.folded($0, collation: $1) }),
                first: noted.first, searches: searches, floor: max(floor, oldest))
            try row.advance(before: .max)
            watched.append(row)
        }
    }

    /// The obstacles with their transactions, and these transactions together, newest first.
    mutating func refusal(_ obstacles: RevertObstacles) throws -> RevertRefusal {
        var refusal = RevertRefusal(
            obstacles: obstacles.noted.map(\.obstacle), count: obstacles.count, transactions: [],
            hasMore: obstacles.count > obstacles.noted.count)
        while let number = watched.compactMap(\.next).max() {
            let indexes = watched.indices.filter { watched[$0].next == number }
            if let transaction = try reader.transaction(number), !undoes(transaction) {
                let hits = try indexes.filter(changed(in: number, indexes).contains)
                if !hits.isEmpty {
                    guard refusal.transactions.count < RevertLimits.namedTransactions else {
                        refusal.hasMore = true
                        return refusal
                    }
                    refusal.transactions.append(transaction)
                    for index in hits { refusal.obstacles[watched[index].index].transactions.append(transaction) }
                }
            }
            for index in indexes { try watched[index].advance(before: number) }
        }
        return refusal
    }

    /// Those of the watched rows that a transaction inserted, deleted, or changed in their columns.
    private func changed(in number: Int64, _ indexes: [Int]) throws -> Set<Int> {
        var found: Set<Int> = []
        for part in try parts(number) {
            let mine = indexes.filter { watched[$0].entry.id == part.entry.id }
            guard !mine.isEmpty else { continue }
            let rule = IdentityRule(part.entry.definition)
            try changes.forEachRow(in: part) { change in
                let (old, new) = (change.old.map { rule.identity(of: $0) }, change.new.map { rule.identity(of: $0) })
                for index in mine where old == watched[index].identity || new == watched[index].identity {
                    let isUpdate = old == new
                    let columns = watched[index].first.filter { $0.value < number && (!isUpdate || change.hasChanged($0.key)) }
                    if !columns.isEmpty { found.insert(index) }
                }
            }
        }
        return found
    }
}
