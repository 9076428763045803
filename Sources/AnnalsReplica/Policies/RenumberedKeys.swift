package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// Integer keys that became others, as the journal tells: by them a conflict's author called rows that are called otherwise
/// now.
///
/// Only those count that came with the same push. Later work of the same author means by an old number whoever has it.
package struct RenumberedKeys {
    private var numbers: [String: [Value: Value]] = [:]

    /// - Parameter names: the store's own, by which tables are asked for.
    package init(_ db: Database, with conflict: Conflict, _ names: NameMap) throws {
        try ConflictJournal.forEachEntry(db, with: conflict) { entry in
            guard entry.kind == .renumber, entry.key.count == 1, let now = entry.incoming?.first else { return }
            numbers[names.table(entry.table).foldedIdentifier, default: [:]][entry.key[0]] = now
        }
    }

    /// What a key is now. A row may have been renumbered several times on its way.
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
