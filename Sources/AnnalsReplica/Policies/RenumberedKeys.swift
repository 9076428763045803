package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// Integer keys that were renumbered, and rows that were set aside, according to the journal. The author of a conflict refers to rows by
/// keys that may have changed, or that another row has.
///
/// Only renumberings of the same push are used. Later transactions of the author use an old number for the row that has it now.
package struct RenumberedKeys {
    private var numbers: [String: [Value: Value]] = [:]
    /// The keys of inserts that were set aside, by table.
    private var setAside: [String: Set<[Value]>] = [:]

    /// - Parameter names: The local names, by which tables are looked up.
    package init(_ db: Database, with conflict: Conflict, _ names: NameMap) throws {
        try ConflictJournal.forEachEntry(db, with: conflict) { entry in
            if entry.kind != .renumber, entry.winner == .stored, entry.columns.isEmpty, entry.base == nil, entry.incoming != nil {
                setAside[names.table(entry.table).foldedIdentifier, default: []].insert(entry.key)
            }
            guard entry.kind == .renumber, entry.key.count == 1, let now = entry.incoming?.first else { return }
            numbers[names.table(entry.table).foldedIdentifier, default: [:]][entry.key[0]] = now
        }
    }

    /// Whether the author's row with this key was set aside.
    func wasSetAside(_ table: String, _ key: [Value]) -> Bool { setAside[table.foldedIdentifier]?.contains(key) ?? false }

    /// The current key. A row may have been renumbered several times.
    package func now(_ table: String, _ key: [Value]) -> [Value] {
        guard key.count == 1, let numbers = numbers[table.foldedIdentifier] else { return key }
        var now = key[0]
        for _ in numbers {
            guard let next = numbers[now] else { break }
            now = next
        }
        return [now]
    }
}
