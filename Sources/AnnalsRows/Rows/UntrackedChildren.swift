package import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Keeps the references of untracked rows to tracked rows valid during a merge (law 4).
///
/// Untracked rows are local and are not in the space. So they follow a parent that gets another key, also if another replica changed the
/// key. Only if the foreign key has ON UPDATE SET NULL, a key that was changed, and not renumbered, ends the reference. If a parent is
/// deleted, the action of their foreign key is done. If it cannot be done, the pull is refused.
package final class UntrackedChildren {
    /// The session owns this object.
    private unowned let session: MergeSession
    private var parents: [UntrackedReference: ReferencedParents] = [:]

    init(session: MergeSession) {
        self.session = session
    }

    /// To be called if a row of a tracked table is deleted.
    package func noteGone(_ table: RowTable, _ row: [Value]) { note(table, row, nil) }

    /// To be called if a row of a tracked table changes in columns that are referenced.
    package func noteMoved(_ table: RowTable, from old: [Value], to new: [Value]) { note(table, old, new) }

    private func note(_ table: RowTable, _ old: [Value], _ new: [Value]?) {
        for reference in session.registry.untrackedReferences(to: table.name) {
            func tuple(_ row: [Value]) -> [Value]? {
                let tuple = reference.parentColumns.compactMap { column in table.definition.columnIndex(of: column).map { row[$0] } }
                return tuple.count == reference.columns.count && !tuple.contains(where: \.isNull) ? tuple : nil
            }
            guard let old = tuple(old) else { continue }
            parents[reference, default: ReferencedParents()].note(old, new.flatMap(tuple))
        }
    }

    /// To be called before changes that see the rows as the changes noted before left them: before each transaction. Changes between two
    /// calls happen at once, so two rows can exchange their keys.
    package func beginStep() {
        for reference in parents.keys { parents[reference]?.endStep() }
    }

    /// Notes rows of this store that a rebase inserted again under other keys.
    package func follow(_ renamings: [RenumberedRows.Renaming]) {
        for (parent, renamings) in Dictionary(grouping: renamings, by: \.old.table) {
            guard let entry = session.registry.table(named: parent) else { continue }
            let key = entry.definition.primaryKey.map { entry.definition.columns[$0].name }
            for reference in session.registry.untrackedReferences(to: parent) {
                let columnIndexes = reference.parentColumns.compactMap { column in key.firstIndex { $0.isSameIdentifier(as: column) } }
                guard columnIndexes.count == reference.columns.count else { continue }
                parents[reference, default: ReferencedParents()].noteInsertedAgain(
                    renamings.map { renaming in (columnIndexes.map { renaming.old.key[$0] }, columnIndexes.map { renaming.new.key[$0] }) })
            }
        }
    }

    /// One statement for all rows, because the old number of one row may be the new number of another. If the reference is unique in its
    /// table, SQLite refuses that; then the rows are taken out first and inserted again.
    private func move(_ reference: UntrackedReference, _ moves: [(old: [Value], new: [Value])]) throws {
        try withTuples(reference, moves.map { ($0.old, $0.new) }) { isListed in
            let new = reference.columns.enumerated().map { columnIndex, column in
                "\(SQL.quote(column)) = (SELECT new\(columnIndex) FROM temp.annals_gone AS gone WHERE \(matches(reference)))"
            }
            let update = "UPDATE \(table(reference)) SET \(new.joined(separator: ", ")) WHERE \(isListed)"
            do {
                try session.db.inSavepoint {
                    try session.db.execute(sql: update)
                    return .commit
                }
            } catch let error as DatabaseError where Self.uniqueness.contains(error.extendedResultCode) {
                try insertAgain(reference, update, where: isListed)
            } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
                throw refusal(reference, "get other keys")
            }
        }
    }

    private static let uniqueness: [ResultCode] = [.SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID]

    private func insertAgain(_ reference: UntrackedReference, _ update: String, where isListed: String) throws {
        let stored = "SELECT name FROM pragma_table_xinfo(?, 'main') WHERE hidden = 0 ORDER BY cid"
        let columns = try String.fetchAll(session.db, sql: stored, arguments: [reference.table]).map(SQL.quote).joined(separator: ", ")
        let copy = "temp.annals_moved AS child"
        try session.db.execute(sql: "CREATE TEMP TABLE annals_moved AS SELECT \(columns) FROM \(table(reference)) WHERE \(isListed)")
        try run("DELETE FROM \(table(reference)) WHERE \(isListed)", reference, "get other keys")
        try run(update.replacing("UPDATE \(table(reference)) ", with: "UPDATE \(copy) "), reference, "get other keys")
        try run(
            "INSERT INTO main.\(SQL.quote(reference.table))(\(columns)) SELECT \(columns) FROM \(copy)", reference, "get other keys")
        try session.db.execute(sql: "DROP TABLE temp.annals_moved")
    }

    /// Call it before COMMIT. Rows follow their parents, and the actions of the foreign keys with deleted parents are done.
    ///
    /// - Throws: `AnnalsError` with code `constraint` if an action cannot be done.
    package func settle() throws {
        try followMoves()
        try forEachLeft(settle)
        parents = [:]
    }

    /// Updates the references to rows whose keys were changed. All keys change at once.
    private func followMoves() throws {
        beginStep()
        for reference in session.registry.untrackedReferences {
            guard let moves = parents[reference]?.takeMoves(), !moves.isEmpty else { continue }
            let ends = moves.filter { reference.onUpdate == .setNull && !$0.isRenumbered }
            if !ends.isEmpty {
                try withTuples(reference, ends.map { ($0.old, []) }) { try setNull(reference, where: $0, "get other keys") }
            }
            let others = moves.filter { reference.onUpdate != .setNull || $0.isRenumbered }
            if !others.isEmpty { try move(reference, others.map { ($0.old, $0.new) }) }
        }
    }

    private func setNull(_ reference: UntrackedReference, where condition: String, _ what: String) throws {
        let sets = reference.columns.map { "\(SQL.quote($0)) = NULL" }.joined(separator: ", ")
        try run("UPDATE \(table(reference)) SET \(sets) WHERE \(condition)", reference, what)
    }

    /// Lets rows follow their parents, and returns the first untracked table with rows that would have no parent.
    package func firstLeft() throws -> String? {
        try followMoves()
        var first: String?
        try forEachLeft { reference, _ in first = first ?? reference.table }
        return first
    }

    /// - Parameter visit: Called for each foreign key with rows that have no parent, with an SQL condition that finds these rows.
    private func forEachLeft(_ visit: (UntrackedReference, _ areLeft: String) throws -> Void) throws {
        for reference in session.registry.untrackedReferences {
            guard let tuples = parents[reference]?.gone, !tuples.isEmpty else { continue }
            try withTuples(reference, tuples.keys.map { ($0, []) }) { isListed in
                let parent = zip(reference.parentColumns, reference.columns).map { "parent.\(SQL.quote($0)) = child.\(SQL.quote($1))" }
                let hasParent = "SELECT 1 FROM main.\(SQL.quote(reference.parent)) AS parent WHERE \(parent.joined(separator: " AND "))"
                let areLeft = "\(isListed) AND NOT EXISTS (\(hasParent))"
                let sql = "SELECT EXISTS (SELECT 1 FROM \(table(reference)) WHERE \(areLeft))"
                if try Bool.fetchOne(session.db, sql: sql) ?? false { try visit(reference, areLeft) }
            }
        }
    }

    private func settle(_ reference: UntrackedReference, _ areLeft: String) throws {
        switch reference.onDelete {
        case .cascade where try !isReferenced(reference.table):
            try run("DELETE FROM \(table(reference)) WHERE \(areLeft)", reference, "are deleted")
        case .setNull:
            try setNull(reference, where: areLeft, "are deleted")
        case .cascade, .setDefault, .noAction, .restrict:
            throw refusal(reference, "are deleted")
        }
    }

    // MARK: Statements

    private func table(_ reference: UntrackedReference) -> String { "main.\(SQL.quote(reference.table)) AS child" }

    private func matches(_ reference: UntrackedReference) -> String {
        reference.columns.enumerated().map { "gone.old\($0) = child.\(SQL.quote($1))" }.joined(separator: " AND ")
    }

    /// Fills a temporary table with tuples of the parent's columns for the time of `body`. So a table without an index is read once for
    /// all tuples. The temporary table compares values as the parent does.
    private func withTuples(
        _ reference: UntrackedReference, _ tuples: [(old: [Value], new: [Value])], _ body: (_ isListed: String) throws -> Void
    ) throws {
        guard let parent = session.registry.table(named: reference.parent)?.definition else { return }
        let count = reference.columns.count
        let old = reference.parentColumns.enumerated().map { columnIndex, name in
            let column = parent.columnIndex(of: name).map { parent.columns[$0] }
            let type = column.map { $0.affinity == .any ? "" : $0.affinity.rawValue } ?? ""
            return "old\(columnIndex) \(type) COLLATE \(SQL.quote(column?.collation ?? Collation.binary))"
        }
        let new = (0..<count).map { "new\($0)" }
        let key = (0..<count).map { "old\($0)" }.joined(separator: ", ")
        let db = session.db
        try db.execute(
            sql: "CREATE TEMP TABLE annals_gone(\((old + new).joined(separator: ", ")), PRIMARY KEY(\(key))) WITHOUT ROWID")
        let placeholders = (1...(2 * count)).map { "?\($0)" }.joined(separator: ", ")
        let insert = try PreparedStatement(db, "INSERT OR IGNORE INTO temp.annals_gone VALUES(\(placeholders))")
        for tuple in tuples {
            let values = tuple.old + (tuple.new.isEmpty ? Array(repeating: .null, count: count) : tuple.new)
            for (index, value) in values.enumerated() { insert.bind(index + 1, value) }
            try insert.run()
        }
        try body("EXISTS (SELECT 1 FROM temp.annals_gone AS gone WHERE \(matches(reference)))")
        try db.execute(sql: "DROP TABLE temp.annals_gone")
    }

    private func run(_ sql: String, _ reference: UntrackedReference, _ what: String) throws {
        do {
            try session.db.execute(sql: sql)
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            throw refusal(reference, what)
        }
    }

    /// Whether rows of another table refer to this table.
    private func isReferenced(_ table: String) throws -> Bool {
        let sql = """
            SELECT 1 FROM main.sqlite_master AS m, pragma_foreign_key_list(m.name, 'main') AS f
            WHERE m.type = 'table' AND f."table" = ?1 COLLATE NOCASE LIMIT 1
            """
        return try Bool.fetchOne(session.db, sql: sql, arguments: [table]) ?? false
    }

    private func refusal(_ reference: UntrackedReference, _ what: String) -> AnnalsError {
        AnnalsError(
            .constraint, operation: "sync",
            "rows of \(reference.parent) \(what), rows of \(reference.table) refer to them, and \(reference.table) is not tracked",
            hint: "Track \(reference.table) with track(_:), or delete these rows of \(reference.table); nothing was changed",
            commandHint: "Run annals track for \(reference.table), or delete these rows of \(reference.table); nothing was changed")
    }
}
