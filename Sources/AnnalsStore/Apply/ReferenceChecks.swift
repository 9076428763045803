import AnnalsCore
import AnnalsMerge
import GRDB

/// Foreign keys of the rows that a session touches, checked before COMMIT because SQLite's own enforcement is off:
/// on, it would run actions a second time whose effects are already in the entries.
///
/// A reference that holds when it is written costs one look-up and is forgotten; only what dangles at that moment is
/// remembered and looked at again at the end, so memory stays flat when parents come before children.
final class ReferenceChecks {
    /// A foreign key whose child has no parent.
    struct Dangling: Hashable {
        var child: RowReference
        var foreignKey: Int
    }

    private struct GoneParent: Hashable {
        var reference: RowReference
        var row: [Value]
    }

    /// The session owns its checks.
    private unowned let session: MergeSession
    private var suspects: Set<Dangling> = []
    private var goneParents: Set<GoneParent> = []
    /// Parents of which so many rows went that their children's tables are checked whole.
    private var wholeParents: Set<String> = []

    init(session: MergeSession) {
        self.session = session
    }

    func noteNew(_ table: RowTable, _ row: [Value]) throws {
        try noteChild(table, row, changedFrom: nil)
    }

    func noteChanged(_ table: RowTable, old: [Value], new: [Value]) throws {
        try noteChild(table, new, changedFrom: old)
        if table.isReferenced, table.referencedPlaces.contains(where: { old[$0] != new[$0] }) { noteGone(table, old) }
    }

    func noteGone(_ table: RowTable, _ row: [Value]) {
        guard table.isReferenced, !wholeParents.contains(table.name) else { return }
        if goneParents.count >= ApplyLimits.pendingReferences {
            wholeParents.formUnion(goneParents.map(\.reference.table))
            wholeParents.insert(table.name)
            goneParents.removeAll()
            return
        }
        goneParents.insert(GoneParent(reference: RowReference(table.name, table.key(of: row)), row: row))
    }

    private func noteChild(_ table: RowTable, _ row: [Value], changedFrom old: [Value]?) throws {
        for (index, key) in table.references.enumerated() {
            if let old, key.places.allSatisfy({ old[$0] == row[$0] }) { continue }
            if try session.parentExists(table, key, row) { continue }
            suspects.insert(Dangling(child: RowReference(table.name, table.key(of: row)), foreignKey: index))
        }
    }

    /// Children without parents among what was touched, as the rows are now.
    func dangling() throws -> [Dangling] {
        var found: [Dangling] = []
        for suspect in suspects {
            let table = try session.table(named: suspect.child.table)
            guard let row = try table.row(suspect.child.key) else { continue }
            if try !session.parentExists(table, table.references[suspect.foreignKey], row) { found.append(suspect) }
        }
        for parent in goneParents {
            for (child, index) in session.children(of: parent.reference.table) {
                for key in try session.orphans(child, child.references[index], of: parent.row, in: parent.reference.table) {
                    found.append(Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        for parent in wholeParents {
            for (child, index) in session.children(of: parent) {
                for key in try session.orphans(child, child.references[index]) {
                    found.append(Dangling(child: RowReference(child.name, key), foreignKey: index))
                }
            }
        }
        return Array(Set(found)).sorted(by: Self.precedes)
    }

    /// The same, and forgets what was touched: what is done about it counts as touched anew.
    func takeDangling() throws -> [Dangling] {
        let dangling = try dangling()
        reset()
        return dangling
    }

    func reset() {
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
