import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Finds lookups in triggers that keep references by themselves: `SELECT … FROM parent WHERE id = NEW.column`, or
/// `DELETE FROM child WHERE column = OLD.id`.
struct ReferenceTriggers {
    struct Lookup {
        var table: String
        var columnIndex: Int
        var parent: DeclaredTable
        var parentColumn: Int
        var onDelete: ReferenceTarget.DeleteAction
        var trigger: String
    }

    private(set) var lookups: [Lookup] = []
    private let tables: [DeclaredTable]
    private var isDelete = false

    init(_ db: Database, tables: [DeclaredTable]) throws {
        self.tables = tables
        let sql = "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND sql IS NOT NULL ORDER BY name"
        for row in try Row.fetchAll(db, sql: sql) {
            let (name, owner, text): (String, String, String) = try (row.value("name"), row.value("tbl_name"), row.value("sql"))
            guard !StoreSchema.isOwnName(name), let owner = table(owner) else { continue }
            isDelete = TriggerDefinition(sql: text)?.event == .delete
            read(SQLToken.all(in: text), name, owner)
        }
    }

    private func table(_ name: String) -> DeclaredTable? { tables.first { $0.name.isSameIdentifier(as: name) } }

    /// The condition that follows a table's name is about that table.
    private mutating func read(_ tokens: [SQLToken], _ trigger: String, _ owner: DeclaredTable) {
        var current: (table: DeclaredTable, verb: String)?
        for (index, token) in tokens.enumerated() {
            let previous = index > 0 ? tokens[index - 1] : nil
            if let name = token.identifier, let previous, previous.isWord("FROM") || previous.isWord("UPDATE") || previous.isWord("INTO"),
                let table = table(name)
            {
                let isDelete = index > 1 && previous.isWord("FROM") && tokens[index - 2].isWord("DELETE")
                current = (table, isDelete ? "DELETE" : previous.text.uppercased())
            }
            guard token.isSymbol("="), let current, let left = side(tokens, before: index), let right = side(tokens, after: index) else {
                continue
            }
            for (one, other) in [(left, right), (right, left)] where ["NEW", "OLD"].contains(other.qualifier?.uppercased() ?? "") {
                guard one.qualifier.map({ !["NEW", "OLD"].contains($0.uppercased()) }) ?? true else { continue }
                note(current, one.column, owner, other, trigger)
            }
        }
    }

    private mutating func note(
        _ current: (table: DeclaredTable, verb: String), _ column: String, _ owner: DeclaredTable,
        _ row: (qualifier: String?, column: String), _ trigger: String
    ) {
        guard let inner = current.table.columnIndex(of: column), let outer = owner.columnIndex(of: row.column),
            current.table.name != owner.name
        else { return }
        if current.table.primaryKey == [inner], owner.primaryKey != [outer] {
            add(owner, outer, current.table, inner, .noAction, trigger)
        } else if owner.primaryKey == [outer], current.table.primaryKey != [inner], row.qualifier?.uppercased() == "OLD" {
            let action: ReferenceTarget.DeleteAction =
                switch (isDelete, current.verb) {
                case (true, "DELETE"): .cascade
                case (true, "UPDATE"): .setNull
                case (true, _): .restrict
                case (false, _): .noAction
                }
            add(current.table, inner, owner, outer, action, trigger)
        }
    }

    /// What a trigger does at a delete of the parent says more than a look-up.
    private mutating func add(
        _ table: DeclaredTable, _ columnIndex: Int, _ parent: DeclaredTable, _ parentColumn: Int, _ action: ReferenceTarget.DeleteAction,
        _ trigger: String
    ) {
        let canBeNull = !table.columns[columnIndex].isNotNull && !table.primaryKey.contains(columnIndex)
        let lookup = Lookup(
            table: table.name, columnIndex: columnIndex, parent: parent, parentColumn: parentColumn,
            onDelete: action == .setNull && !canBeNull ? .noAction : action, trigger: trigger)
        let known = lookups.firstIndex {
            $0.table == table.name && $0.columnIndex == columnIndex && $0.parent.name == parent.name && $0.parentColumn == parentColumn
        }
        guard let known else { return lookups.append(lookup) }
        if lookups[known].onDelete == .noAction || lookups[known].onDelete == .restrict, action != .noAction {
            lookups[known].onDelete = lookup.onDelete
        }
    }

    /// `column` or `qualifier.column` next to an equals sign.
    private func side(_ tokens: [SQLToken], before index: Int) -> (qualifier: String?, column: String)? {
        guard index > 0, let column = tokens[index - 1].identifier else { return nil }
        guard index > 2, tokens[index - 2].isSymbol(".") else { return (nil, column) }
        return (tokens[index - 3].identifier, column)
    }

    private func side(_ tokens: [SQLToken], after index: Int) -> (qualifier: String?, column: String)? {
        guard index + 1 < tokens.count, let name = tokens[index + 1].identifier else { return nil }
        guard index + 3 < tokens.count, tokens[index + 2].isSymbol(".") else { return (nil, name) }
        return tokens[index + 3].identifier.map { (name, $0) }
    }
}
