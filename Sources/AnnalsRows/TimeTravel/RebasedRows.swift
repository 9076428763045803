import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import GRDB

/// The rows that rebases of this replica changed after a transaction.
///
/// A rebase undoes own work, applies the work of others and repeats the own work. So a row can have the value that a transaction wrote,
/// although others changed the row in between, and the old value of the transaction is not the one to return to. The transaction that
/// repeated the work has the right one.
struct RebasedRows {
    /// What rebases did, in their order.
    private var changes: [(number: Int64, change: NetChange)] = []
    /// The indices in `changes` by the hash of a row's key.
    private var indexes: [Int: [Int]] = [:]
    /// The hashes of rows whose changes are not in `changes`. Two rows with one hash only cause a refusal.
    private var unknown: Set<Int> = []

    private var bytes = 0

    /// The number of changes in memory, and the size of their values. A revert of further rows is refused.
    private static let limit = 10_000
    private static let byteLimit = 32 << 20

    /// - Parameter number: a transaction; rebases after it count, and serializable transactions that rebases undid.
    init(_ db: Database, _ changes: NetChanges, after number: Int64) throws {
        let withdrawn = try SerializableTable(db).withdrawn().filter { $0 > number }
        for rebase in try (TransactionTable(db).numbers(of: .rebase, after: number) + withdrawn).sorted() {
            for part in try changes.parts(of: rebase) {
                try changes.forEachRow(in: part) { note($0, rebase, part.entry) }
            }
        }
    }

    private mutating func note(_ change: NetChange, _ number: Int64, _ entry: TrackedTables.Entry) {
        let hashes = Self.hashes(change, entry)
        for row in [change.old, change.new] { bytes += row?.reduce(0) { $0 + $1.byteCount } ?? 0 }
        guard changes.count < Self.limit, bytes <= Self.byteLimit else { return unknown.formUnion(hashes) }
        for hash in hashes { indexes[hash, default: []].append(changes.count) }
        changes.append((number, change))
    }

    /// Replaces the old values by those to which a revert returns now. Columns for which that is not clear become interrupted. A rebase
    /// repeats own work only, so the work of others is left as it is.
    func follow(_ undone: inout UndoneChange, of entry: TrackedTables.Entry) {
        guard !changes.isEmpty, let own = undone.firstOwn else { return }
        let hashes = Self.hashes(undone.change, entry)
        if hashes.contains(where: unknown.contains) { return undone.interrupt() }
        let found = hashes.reduce(into: Set<Int>()) { $0.formUnion(indexes[$1] ?? []) }
        let later = found.sorted().map { changes[$0] }.filter { $0.number > own }
        if later.isEmpty { return }
        guard hashes.count == 1 else { return undone.interrupt() }
        undone.follow(later.map(\.change))
    }

    /// The hash of the row's key; two if the change gave the row another key.
    private static func hashes(_ change: NetChange, _ entry: TrackedTables.Entry) -> Set<Int> {
        let rule = IdentityRule(entry.definition)
        return Set(
            [change.old, change.new].compactMap { row in
                row.map { row in
                    var hasher = Hasher()
                    hasher.combine(entry.id)
                    hasher.combine(rule.identity(of: row))
                    return hasher.finalize()
                }
            })
    }
}
