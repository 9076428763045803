package import AnnalsCore
package import AnnalsMerge
import AnnalsSchema
import GRDB

/// Checks the foreign keys of the rows that a session touches before COMMIT. SQLite's own enforcement is off, because it would
/// repeat actions, and the entries already hold their effects.
///
/// A reference that is valid when it is written costs one look-up and is not recorded. Only dangling references are recorded
/// and checked again at the end. So memory stays constant if parents are written before their children.
package final class ReferenceChecks {
    /// A foreign key of a child row without a parent row.
    package struct Dangling: Hashable {
        package var child: RowReference
        package var foreignKey: Int
    }

    private struct GoneParent: Hashable {
        var reference: RowReference
        var row: [Value]
    }

    /// The session owns this object.
    private unowned let session: MergeSession
    /// The position of the log entry that is being applied; nil for other changes.
    package var position: Position?
    /// Each with the last entry that left the reference dangling.
    private var suspects: [Dangling: Position?] = [:]
    private var goneParents: [GoneParent: Position?] = [:]
    /// Whether references that the schema does not declare are checked too. Rows may lack such a parent, so only a rebase asks for it.
    package var includesUndeclared = false
    /// Parent tables that lost so many rows that their child tables are checked completely.
    private var wholeParents: [String: Position?] = [:]

    package init(session: MergeSession) {
        self.session = session
    }

    package func noteNew(_ table: RowTable, _ row: [Value]) throws {
        try noteChild(table, row, changedFrom: nil)
    }

    package func noteChanged(_ table: RowTable, old: [Value], new: [Value]) throws {
        try noteChild(table, new, changedFrom: old)
        guard table.isReferenced, table.referencedColumnIndexes.contains(where: { old[$0] != new[$0] }) else { return }
        session.untrackedChildren.noteMoved(table, from: old, to: new)
        noteGoneParent(table, old)
    }

    package func noteGone(_ table: RowTable, _ row: [Value]) {
        guard table.isReferenced else { return }
        session.untrackedChildren.noteGone(table, row)
        noteGoneParent(table, row)
    }

    private func noteGoneParent(_ table: RowTable, _ row: [Value]) {
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
            guard key.isDeclared || includesUndeclared else { continue }
            if let old, key.usedColumnIndexes.allSatisfy({ old[$0] == row[$0] }) { continue }
            if try session.parentExists(table, key, row) { continue }
            suspects.updateValue(position, forKey: Dangling(child: RowReference(table.name, table.key(of: row)), foreignKey: index))
        }
    }

    /// Touched children that have no parent now.
    package func dangling() throws -> [Dangling] {
        try danglingByEntry().keys.sorted(by: Self.precedes)
    }

    /// Whether the child of a dangling reference was written, and not only its parent removed.
    package func isWritten(_ dangling: Dangling) -> Bool { suspects[dangling] != nil }

    /// The first of `dangling()`, and the log entry that left it dangling.
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
            for (child, index) in children(of: parent.reference.table) {
                for key in try session.orphans(child, child.references[index], of: parent.row, in: parent.reference.table) {
                    found.updateValue(position, forKey: Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        for (parent, position) in wholeParents {
            for (child, index) in children(of: parent) {
                for key in try session.orphans(child, child.references[index]) {
                    found.updateValue(position, forKey: Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        return found
    }

    private func children(of parent: String) -> [(table: RowTable, foreignKey: Int)] {
        let children = session.children(of: parent)
        if includesUndeclared || session.registry.undeclared.isEmpty { return children }
        return children.filter { $0.table.references[$0.foreignKey].isDeclared }
    }

    /// Returns `dangling()` and clears the records. The changes that settle these references are recorded again.
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

    /// A fixed order. Decisions must not depend on the order of a hash table.
    private static func precedes(_ left: Dangling, _ right: Dangling) -> Bool {
        if left.child.table != right.child.table { return left.child.table < right.child.table }
        if left.foreignKey != right.foreignKey { return left.foreignKey < right.foreignKey }
        return String(describing: left.child.key) < String(describing: right.child.key)
    }
}
