import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import GRDB

/// The rows that got their key after a point of history. A row that a revert brings back must not refer to one of them: a key can be used
/// again, and SQLite gives the number of a deleted row to the next one.
///
/// A row that a revert, a restore or a resolved conflict inserted again is the old one.
struct LaterParents {
    /// The newest transaction that gave a row this key, by table.
    private var newest: [String: [RowIdentity: Int64]] = [:]

    /// Reads all transactions after a number once.
    init(_ db: Database, _ changes: NetChanges, after number: Int64) throws {
        let tables = Set(
            changes.tables.entries.flatMap(\.definition.foreignKeys).compactMap {
                changes.tables.table(named: $0.parentTable)?.definition.name
            })
        guard !tables.isEmpty else { return }
        let reader = try HistoryReader(db, tables: changes.tables)
        let latest = try HistoryBounds(db).latest.number
        guard latest > number else { return }
        for number in (number + 1)...latest {
            guard let transaction = try reader.transaction(number), transaction.origin != .rebase, !transaction.bringsBack else { continue }
            for part in try changes.parts(of: number) where tables.contains(part.entry.definition.name) {
                let rule = IdentityRule(part.entry.definition)
                try changes.forEachRow(in: part) { change in
                    guard let new = change.new.map({ rule.identity(of: $0) }), change.old.map({ rule.identity(of: $0) }) != new else {
                        return
                    }
                    newest[part.entry.definition.name, default: [:]][new] = number
                }
            }
        }
    }

    /// Whether a row got this key of a table after a transaction.
    func isLater(_ table: DeclaredTable, key: [Value], than number: Int64) -> Bool {
        guard let keys = newest[table.name] else { return false }
        let rule = IdentityRule(table)
        let identity = RowIdentity.key(zip(key, rule.collations).map { IdentityRule.folded($0, collation: $1) })
        return keys[identity].map { $0 > number } ?? false
    }
}

extension HistoryTransaction {
    /// Whether it is a revert, a restore or a resolved conflict, of this replica or another one.
    fileprivate var bringsBack: Bool {
        contextName.map { $0 == "resolve" || $0.hasPrefix("revert of ") || $0.hasPrefix("restore to ") } ?? false
    }
}
