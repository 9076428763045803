import AnnalsCore
import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The renames of a migration: those that it makes, and those that another program has made and that are only declared here.
package struct DeclaredRenames {
    private let db: Database
    private let renames: [Rename]

    /// - Throws: `AnnalsError` if a table to rename is not tracked, and with code `usage` for an empty name.
    package init(_ db: Database, _ renames: [Rename]) throws {
        self.db = db
        self.renames = renames
        for rename in renames where rename.name.isEmpty { throw Self.refused(.usage, "a name is empty") }
    }

    // MARK: Renames by another program

    /// Links renamed tables and columns, which another program rebuilt under the new name, with their canonical names. To be called after
    /// everything is recorded and before more is added to the outbox.
    package func declare() throws {
        for (index, rename) in renames.enumerated() where try isDone(rename, before: index) { try declare(rename) }
    }

    /// Whether the old name is gone and the new name exists, and the new name is not made by an earlier rename of this list.
    private func isDone(_ rename: Rename, before index: Int) throws -> Bool {
        let made = renames[..<index].contains { $0.name.isSameIdentifier(as: rename.column ?? rename.table) }
        guard !made else { return false }
        let reader = SchemaReader(db)
        guard let column = rename.column else { return try reader.table(rename.table) == nil && reader.table(rename.name) != nil }
        guard let table = try reader.table(rename.table) else { return false }
        return table.columnIndex(of: column) == nil && table.columnIndex(of: rename.name) != nil
    }

    private func declare(_ rename: Rename) throws {
        let list = try list(of: rename.column == nil ? rename.name : rename.table)
        guard try StoreSchema.isReplica(db), let space = try SpaceSchema.load(db) else { return }
        guard let column = rename.column else {
            // The table's capture triggers moved with it, so it has another canonical name. Otherwise it is a different table.
            let first = list.first.table
            let wasOther = !first.isSameIdentifier(as: list.name) || space.present(first).isSameIdentifier(as: rename.table)
            guard wasOther else {
                throw Self.refused(
                    .schemaRefused, "the table \(rename.table) is not tracked, and \(rename.name) never had this name",
                    "A table can be rebuilt under its name, or renamed with ALTER TABLE, but not both at once")
            }
            return try SpaceRename.add([SpaceRename(table: list.first.table, column: nil, name: rename.name)], db)
        }
        var first = list.first
        guard let columnIndex = list.columns.firstIndex(where: { $0.isSameIdentifier(as: rename.name) }),
            let known = try firstName(of: column, list, space)
        else { throw Self.refused(.schemaRefused, "\(rename.table) never had a column \(column)", nil) }
        if !first.columns[columnIndex].isSameIdentifier(as: known) {
            let theirs = space.table(named: first.table)
            guard theirs?.columnIndex(of: first.columns[columnIndex]) == nil,
                !first.columns.contains(where: { $0.isSameIdentifier(as: known) })
            else { throw Self.refused(.schemaRefused, "\(rename.table).\(rename.name) is a different column than \(column)", nil) }
            first.columns[columnIndex] = known
            try CanonicalNames.set(first, of: list, db)
        }
        try SpaceRename.add([SpaceRename(table: first.table, column: known, name: rename.name)], db)
    }

    /// The canonical name of a column that the table had, from this store's earlier layouts or from the space's names.
    private func firstName(of column: String, _ list: TrackedTable, _ space: SpaceSchema) throws -> String? {
        let earlier = try TrackedTable.fetchAll(db).filter { $0.name.isSameIdentifier(as: list.name) && $0.id != list.id }
        for old in earlier.reversed() {
            if let columnIndex = old.columns.firstIndex(where: { $0.isSameIdentifier(as: column) }) {
                return old.first.columns[columnIndex]
            }
        }
        let names = space.table(named: list.first.table)?.columns.map(\.name) ?? []
        return names.first { space.present($0, of: list.first.table).isSameIdentifier(as: column) }
            ?? names.first { $0.isSameIdentifier(as: column) }
    }

    // MARK: Renames by this migration

    /// Makes the other renames, in their order, and repairs capture.
    package func make() throws {
        guard !renames.isEmpty else { return }
        for (index, rename) in renames.enumerated() where try !isDone(rename, before: index) { try make(rename) }
        _ = try Drift.repairIfNeeded(db)
    }

    private func make(_ rename: Rename) throws {
        let reader = SchemaReader(db)
        let table = try reader.table(rename.table)
        let hasOld: Bool
        let hasNew: Bool
        if let column = rename.column {
            guard let table else { throw Self.refused(.schemaRefused, "there is no table \(rename.table)", nil) }
            (hasOld, hasNew) = (table.columnIndex(of: column) != nil, table.columnIndex(of: rename.name) != nil)
        } else {
            (hasOld, hasNew) = (table != nil, try reader.table(rename.name) != nil)
        }
        let names = (rename.column.map { "\(rename.table).\($0)" } ?? rename.table, rename.name)
        let isSame = rename.name.isSameIdentifier(as: rename.column ?? rename.table)
        if !hasOld { throw Self.refused(.schemaRefused, "there is neither \(names.0) nor \(names.1)", nil) }
        if hasNew, !isSame { throw Self.refused(.schemaRefused, "there are both \(names.0) and \(names.1)", nil) }
        do {
            try Renaming.execute(rename.statement, db)
        } catch let error as DatabaseError {
            throw Self.refused(.schemaRefused, "SQLite refused to rename \(names.0): \(error.message ?? "no reason given")", nil)
        }
    }

    /// Checks that all renames concern tracked tables. The names of other tables are not synced.
    package func checkTracked() throws {
        let tracked = try TrackedTable.fetchTracked(db).map(\.name)
        var known = tracked
        for rename in renames {
            let isTracked = known.contains { $0.isSameIdentifier(as: rename.table) }
            let isDone = rename.column == nil && known.contains { $0.isSameIdentifier(as: rename.name) }
            guard isTracked || isDone else {
                throw AnnalsError(
                    .schemaRefused, operation: "migrate", "the table \(rename.table) is not tracked",
                    hint: "Rename other tables with ALTER TABLE in the file; nothing was changed")
            }
            if rename.column == nil { known.append(rename.name) }
        }
    }

    private func list(of table: String) throws -> TrackedTable {
        guard let list = try TrackedTable.fetchAll(db).last(where: { $0.state == .tracked && $0.name.isSameIdentifier(as: table) }) else {
            throw Self.refused(.schemaRefused, "the table \(table) is not tracked", nil)
        }
        return list
    }

    private static func refused(_ code: AnnalsError.Code, _ message: String, _ hint: String? = nil) -> AnnalsError {
        AnnalsError(code, operation: "migrate", message, hint: hint.map { "\($0); nothing was changed" } ?? "Nothing was changed")
    }
}
