package import AnnalsCore
package import AnnalsMerge
import AnnalsSchema
import GRDB

/// Foreign keys of the rows that a session touches, checked before COMMIT because SQLite's own enforcement is off:
/// on, it would run actions a second time whose effects are already in the entries.
///
/// A reference that holds when it is written costs one look-up and is forgotten; only what dangles at that moment is
/// remembered and looked at again at the end, so memory stays flat when parents come before children.
package final class ReferenceChecks {
    /// A foreign key whose child has no parent.
    package struct Dangling: Hashable {
        package var child: RowReference
        package var foreignKey: Int
    }

    private struct GoneParent: Hashable {
        var reference: RowReference
        var row: [Value]
    }

    /// The session owns its checks.
    private unowned let session: MergeSession
    /// The entry of the log that is applied; nil for other work.
    package var position: Position?
    /// Each with the last entry that left it so.
    private var suspects: [Dangling: Position?] = [:]
    private var goneParents: [GoneParent: Position?] = [:]
    /// Parents of which so many rows went that their children's tables are checked whole.
    private var wholeParents: [String: Position?] = [:]

    package init(session: MergeSession) {
        self.session = session
    }

    package func noteNew(_ table: RowTable, _ row: [Value]) throws {
        try noteChild(table, row, changedFrom: nil)
    }

    package func noteChanged(_ table: RowTable, old: [Value], new: [Value]) throws {
        try noteChild(table, new, changedFrom: old)
        if table.isReferenced, table.referencedPlaces.contains(where: { old[$0] != new[$0] }) { noteGone(table, old) }
    }

    package func noteGone(_ table: RowTable, _ row: [Value]) {
        guard table.isReferenced else { return }
        session.untrackedChildren.noteGone(table, row)
        guard wholeParents[table.name] == nil else { return }
        if goneParents.count >= ApplyLimits.pendingReferences {
            for parent in goneParents.keys { wholeParents.updateValue(position, forKey: parent.reference.table) }
            wholeParents.updateValue(position, forKey: table.name)
            goneParents.removeAll()
            return
        }
        goneParents.updateValue(position, forKey: GoneParent(reference: RowReference(table.name, table.key(of: row)), row: row))
    }

    private func noteChild(_ table: RowTable, _ row: [Value], changedFrom old: [Value]?) throws {
        for (index, key) in table.references.enumerated() {
            if let old, key.places.allSatisfy({ old[$0] == row[$0] }) { continue }
            if try session.parentExists(table, key, row) { continue }
            suspects.updateValue(position, forKey: Dangling(child: RowReference(table.name, table.key(of: row)), foreignKey: index))
        }
    }

    /// Children without parents among what was touched, as the rows are now.
    package func dangling() throws -> [Dangling] {
        try danglingByEntry().keys.sorted(by: Self.precedes)
    }

    /// The first of them in that order, and the entry of the log that left it so.
    package func firstDangling() throws -> (Dangling, Position?)? {
        let found = try danglingByEntry()
        return found.keys.min(by: Self.precedes).map { ($0, found[$0] ?? nil) }
    }

    private func danglingByEntry() throws -> [Dangling: Position?] {
        var found: [Dangling: Position?] = [:]
        for (suspect, position) in suspects {
            let table = try session.table(named: suspect.child.table)
            guard let row = try table.row(suspect.child.key) else { continue }
            if try !session.parentExists(table, table.references[suspect.foreignKey], row) { found.updateValue(position, forKey: suspect) }
        }
        for (parent, position) in goneParents {
            for (child, index) in session.children(of: parent.reference.table) {
                for key in try session.orphans(child, child.references[index], of: parent.row, in: parent.reference.table) {
                    found.updateValue(position, forKey: Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        for (parent, position) in wholeParents {
            for (child, index) in session.children(of: parent) {
                for key in try session.orphans(child, child.references[index]) {
                    found.updateValue(position, forKey: Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        return found
    }

    /// The same, and forgets what was touched: what is done about it counts as touched anew.
    package func takeDangling() throws -> [Dangling] {
        let dangling = try dangling()
        reset()
        return dangling
    }

    package func reset() {
        suspects.removeAll()
        goneParents.removeAll()
        wholeParents.removeAll()
    }

    /// A fixed order, so that what is decided does not depend on hashing.
    private static func precedes(_ left: Dangling, _ right: Dangling) -> Bool {
        if left.child.table != right.child.table { return left.child.table < right.child.table }
        if left.foreignKey != right.foreignKey { return left.foreignKey < right.foreignKey }
        return String(describing: left.child.key) < String(describing: right.child.key)
    }
}
