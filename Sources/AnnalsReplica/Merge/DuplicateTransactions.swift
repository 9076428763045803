package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows
import AnnalsSchema

/// Outbox transactions that are also in the pulled entries, because another copy of this file pushed them (merge rule 39).
///
/// They are not repeated. But later outbox transactions refer to their rows by the local keys, and mean the same rows under
/// the keys that these have in the space.
package struct DuplicateTransactions {
    private let outbox: [TransactionID: OutboxTransaction]
    private var names: [TransactionID: [(names: [CandidateKey], rowID: RowIdentities.ID)]] = [:]

    init(_ outbox: [OutboxTransaction]) {
        self.outbox = Dictionary(outbox.map { ($0.info.id, $0) }, uniquingKeysWith: { first, _ in first })
    }

    package func contains(_ id: TransactionID) -> Bool { outbox[id] != nil }

    /// To be called after an entry is applied. If the outbox holds its transaction too, this records where its rows are.
    package mutating func note(_ id: TransactionID, journal: [JournalEntry], _ identities: RowIdentities, _ session: MergeSession) throws {
        guard let transaction = outbox[id] else { return }
        // The local keys already follow the journal entries that this file made itself.
        let known = Set(transaction.journal)
        let settled = journal.filter { !known.contains($0) }
        for change in transaction.changes {
            let table = try session.table(named: change.table)
            guard let (asked, key) = made(change.change, table), let present = Self.present(key, table, settled),
                case .row(let rowID) = identities.occupant(of: table.keyName(present))
            else { continue }
            names[id, default: []].append((asked, rowID))
        }
    }

    /// Makes the transactions after a duplicate refer to its rows by the local keys.
    package func call(_ id: TransactionID, in identities: inout RowIdentities) {
        for (names, rowID) in names[id] ?? [] { identities.call(rowID, by: names) }
    }

    /// The candidate keys and the primary key that a change gave to a row; nil if it gave none.
    private func made(_ change: RowChange, _ table: RowTable) -> ([CandidateKey], [Value])? {
        switch change {
        case .delete: return nil
        case .insert(let row): return (table.names(of: row), table.key(of: row))
        case .update(let key, let columns):
            var moved = key
            for column in columns {
                if let part = table.definition.primaryKey.firstIndex(of: column.column) { moved[part] = column.new }
            }
            return moved == key ? nil : ([table.keyName(moved)], moved)
        }
    }

    /// The key of a row in the space, after all its renumberings; nil if the row was set aside.
    private static func present(_ key: [Value], _ table: RowTable, _ journal: [JournalEntry]) -> [Value]? {
        var key = key
        for line in journal where line.table == table.first.name && line.key == key {
            if line.kind == .renumber, line.winner == .incoming, let given = line.incoming {
                key = given
            } else if line.columns.isEmpty, line.winner == .stored {
                return nil
            }
        }
        return key
    }
}
