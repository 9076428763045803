import AnnalsCore
import GRDB

/// Rows without history that refer to tracked ones, kept right in a merge (law 4).
///
/// They are this machine's own, and the space knows nothing of them. So they follow a parent that got another key, and do what their
/// foreign key declares where a parent goes; where it declares nothing that can be done, the pull is refused.
final class UntrackedChildren {
    /// The session owns it.
    private unowned let session: MergeSession
    /// What their foreign keys refer to and may have gone.
    private var gone: [UntrackedReference: Set<[Value]>] = [:]

    init(session: MergeSession) {
        self.session = session
    }

    /// A row of a tracked table goes, or gets other values in columns that are referred to.
    func noteGone(_ table: RowTable, _ row: [Value]) {
        for reference in session.registry.untrackedReferences(to: table.name) {
            let tuple = reference.parentColumns.compactMap { column in table.definition.place(of: column).map { row[$0] } }
            guard tuple.count == reference.columns.count, !tuple.contains(where: \.isNull) else { continue }
            gone[reference, default: []].insert(tuple)
        }
    }

    /// Rows of this store got other keys, all at once.
    func follow(_ renamings: [RenumberedRows.Renaming]) throws {
        for (parent, renamings) in Dictionary(grouping: renamings, by: \.old.table) {
            guard let entry = session.registry.table(named: parent) else { continue }
            let key = entry.definition.primaryKey.map { entry.definition.columns[$0].name }
            for reference in session.registry.untrackedReferences(to: parent) {
                let places = reference.parentColumns.compactMap { column in key.firstIndex { $0.isSameIdentifier(as: column) } }
                guard places.count == reference.columns.count else { continue }
                try move(
                    reference, renamings.map { renaming in (places.map { renaming.old.key[$0] }, places.map { renaming.new.key[$0] }) })
            }
        }
    }

    /// A number that one row gave up may be another's now: that row's children go first.
    private func move(_ reference: UntrackedReference, _ moves: [(old: [Value], new: [Value])]) throws {
        let sets = reference.columns.enumerated().map { "\(SQL.quote($1)) = ?\($0 + 1)" }.joined(separator: ", ")
        let table = "main.\(SQL.quote(reference.table))"
        let statement = try session.prepared("UPDATE \(table) SET \(sets) WHERE \(condition(reference, after: reference.columns.count))")
        var waiting = Dictionary(moves.filter { $0.old != $0.new }.map { ($0.old, $0.new) }, uniquingKeysWith: { $1 })
        while !waiting.isEmpty {
            let free = waiting.filter { waiting[$0.value] == nil }
            guard !free.isEmpty else { throw refusal(reference, "exchange their keys") }
            for (old, new) in free {
                try run(statement, new + old, reference, "get other keys")
                waiting[old] = nil
            }
        }
    }

    /// Before COMMIT: has rows do what their foreign keys declare where a parent is gone.
    ///
    /// - Throws: `AnnalsError` of code constraint where they declare nothing that can be done.
    func settle() throws {
        try forEachLeft(settle)
        gone = [:]
    }

    /// The first table without history of which rows would be left without a parent.
    func firstLeft() throws -> String? {
        var first: String?
        try forEachLeft { reference, _ in first = first ?? reference.table }
        return first
    }

    private func forEachLeft(_ visit: (UntrackedReference, [Value]) throws -> Void) throws {
        for reference in session.registry.untrackedReferences {
            guard let tuples = gone[reference] else { continue }
            let parent = "SELECT 1 FROM main.\(SQL.quote(reference.parent)) WHERE \(condition(reference.parentColumns, after: 0))"
            let children = "SELECT 1 FROM main.\(SQL.quote(reference.table)) WHERE \(condition(reference, after: 0)) LIMIT 1"
            for tuple in tuples where try !has(parent, tuple) && has(children, tuple) { try visit(reference, tuple) }
        }
    }

    private func settle(_ reference: UntrackedReference, _ tuple: [Value]) throws {
        let table = "main.\(SQL.quote(reference.table))"
        switch reference.onDelete {
        case .cascade where try !isReferenced(reference.table):
            let sql = "DELETE FROM \(table) WHERE \(condition(reference, after: 0))"
            try run(session.prepared(sql), tuple, reference, "are deleted")
        case .setNull:
            let sets = reference.columns.map { "\(SQL.quote($0)) = NULL" }.joined(separator: ", ")
            try run(
                session.prepared("UPDATE \(table) SET \(sets) WHERE \(condition(reference, after: 0))"), tuple, reference, "are deleted")
        case .cascade, .setDefault, .noAction, .restrict:
            throw refusal(reference, "are deleted")
        }
    }

    // MARK: Statements

    private func condition(_ reference: UntrackedReference, after parameters: Int) -> String {
        condition(reference.columns, after: parameters)
    }

    private func condition(_ columns: [String], after parameters: Int) -> String {
        columns.enumerated().map { "\(SQL.quote($1)) = ?\(parameters + $0 + 1)" }.joined(separator: " AND ")
    }

    private func has(_ sql: String, _ values: [Value]) throws -> Bool {
        let statement = try session.prepared(sql)
        for (index, value) in values.enumerated() { statement.bind(index + 1, value) }
        defer { statement.reset() }
        return try statement.step()
    }

    private func run(_ statement: PreparedStatement, _ values: [Value], _ reference: UntrackedReference, _ what: String) throws {
        for (index, value) in values.enumerated() { statement.bind(index + 1, value) }
        do {
            try statement.run()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw refusal(reference, what)
        }
    }

    /// Whether another table's rows would have to go as well.
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
            hint: "Run annals track for \(reference.table), or delete these rows of \(reference.table); nothing was changed")
    }
}
