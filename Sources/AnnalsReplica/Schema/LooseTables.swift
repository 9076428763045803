import AnnalsCore
import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Rows of the space violate a constraint that only this store has.
package struct ViolatedConstraint: Error {
    package let cause: DatabaseError
}

/// Tables of this store with constraints that the space does not have yet, with only the constraints of the space for a while.
///
/// The log, and the rows without the outbox, may violate the others. So the tables are rebuilt without them before rows go back to older
/// states, and get their declaration again before the SQLite transaction ends. No other program sees them without it.
///
/// Triggers and foreign keys of the connection must be off.
package final class LooseTables {
    /// The constraints that a loose table keeps.
    package struct Level: Equatable {
        /// The folded names of columns.
        package var notNull: Set<String> = []
        /// CHECK constraints as comparable texts.
        package var checks: Set<String> = []
        /// For each unique index of the declaration, whether it is kept.
        package var uniques: [Bool] = []

        package init() {}

        /// The constraints that a table of the space has too.
        package init(_ entry: TrackedTables.Entry, _ known: DeclaredTable) {
            for (own, first) in zip(entry.definition.columns, entry.first.columns) {
                guard let columnIndex = known.columnIndex(of: first.name), known.columns[columnIndex].isNotNull else { continue }
                notNull.insert(own.name.foldedIdentifier)
            }
            let all = Set(known.checks.map { SQLText($0).comparable })
            for (own, first) in zip(entry.definition.checks, entry.first.checks) where all.contains(SQLText(first).comparable) {
                checks.insert(SQLText(own).comparable)
            }
            uniques = SchemaAgreement.uniques(entry.first, in: known)
        }

        /// The constraints that both have.
        func intersection(_ other: Level) -> Level {
            var level = self
            level.notNull.formIntersection(other.notNull)
            level.checks.formIntersection(other.checks)
            level.uniques = zip(uniques, other.uniques).map { $0 && $1 }
            return level
        }
    }

    private struct Table {
        var definition: DeclaredTable
        var sql: String
        var objects: [TableObject]
        var level: Level

        var name: String { definition.name }
    }

    private let db: Database
    private var tables: [Table] = []

    package init(_ db: Database) {
        self.db = db
    }

    package var isLoose: Bool { !tables.isEmpty }
    /// Some tables are or were loose.
    package private(set) var wasLoose = false

    // MARK: Without constraints

    /// Gives tables other constraints than those of their declaration.
    ///
    /// - Parameters:
    ///   - levels: by the names of tables in this store.
    ///   - onlyRemoves: Whether loose tables keep no constraint that they do not have now.
    /// - Throws: `AnnalsError` with code `waitingForMigration` if a row violates a constraint of its level.
    package func loosen(_ levels: [(name: String, level: Level)], onlyRemoves: Bool = false) throws {
        for (name, level) in levels {
            let index = tables.firstIndex { $0.name.isSameIdentifier(as: name) }
            guard let table = try index.map({ tables[$0] }) ?? table(name, level) else { throw Corruption(OwnTables.tables) }
            let level = onlyRemoves && index != nil ? table.level.intersection(level) : level
            guard index == nil || table.level != level else { continue }
            try rebuild(table, by: Self.loose(table.sql, keeping: level))
            let uniques = Dictionary(
                zip(table.definition.uniqueIndexes.map(\.name.foldedIdentifier), level.uniques), uniquingKeysWith: { $1 })
            for object in table.objects where object.isIndex || object.isTemporary {
                guard uniques[object.name.foldedIdentifier] ?? true else { continue }
                try db.execute(sql: object.statement)
            }
            for (number, unique) in zip(table.definition.uniqueIndexes, level.uniques).enumerated() where unique.1 && unique.0.isConstraint
            {
                let columns = unique.0.columns.map { "\(SQL.quote($0.name ?? "")) COLLATE \(SQL.quote($0.collation))" }
                try refusing(name) {
                    try db.execute(
                        sql: """
                            CREATE UNIQUE INDEX main.annals_loose_\(number)_\(tables.count) ON \(SQL.quote(table.name))
                            (\(columns.joined(separator: ", ")))
                            """)
                }
            }
            if let index { tables[index].level = level } else { tables.append(table) }
            wasLoose = true
        }
    }

    private func table(_ name: String, _ level: Level) throws -> Table? {
        let table = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        guard let definition = try SchemaReader(db).table(name),
            let sql = try String.fetchOne(db, sql: table, arguments: [definition.name])
        else { return nil }
        return Table(definition: definition, sql: sql, objects: try TableObject.all(of: definition.name, db), level: level)
    }

    private func refusing(_ name: String, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw Self.refused(name, error)
        }
    }

    /// The statement without UNIQUE, and with only these NOT NULL and CHECK. What follows CONSTRAINT and a name may be missing in SQLite.
    package static func loose(_ sql: String, keeping level: Level = Level()) -> String {
        let bytes = Array(sql.utf8)
        var text: [UInt8] = []
        var end = 0
        var depth = 0
        let tokens = SQLToken.all(in: sql)
        var index = 0
        func isWord(_ index: Int, _ word: String) -> Bool { index < tokens.count && tokens[index].isWord(word) }
        func isSymbol(_ index: Int, _ symbol: String) -> Bool { index < tokens.count && tokens[index].isSymbol(symbol) }
        /// The index after the parentheses that open at this index.
        func afterParentheses(_ start: Int) -> Int {
            var (index, open) = (start, 0)
            repeat {
                if isSymbol(index, "(") { open += 1 }
                if isSymbol(index, ")") { open -= 1 }
                index += 1
            } while open > 0 && index < tokens.count
            return index
        }
        /// Replaces the tokens from `index` up to `next`, and a conflict clause after them.
        func replace(upTo next: Int, by new: String) {
            let next = isWord(next, "ON") && isWord(next + 1, "CONFLICT") ? next + 3 : next
            text += bytes[end..<tokens[index].range.lowerBound] + new.utf8
            end = tokens[min(next, tokens.count) - 1].range.upperBound
            index = next
        }
        var column: String?
        while index < tokens.count {
            if depth == 1, index > 0, isSymbol(index - 1, "(") || isSymbol(index - 1, ",") {
                column = tokens[index].name?.foldedIdentifier
            }
            if depth == 1, isWord(index, "NOT"), isWord(index + 1, "NULL") {
                let isKept = column.map(level.notNull.contains) ?? false
                if isKept { index += 2 } else { replace(upTo: index + 2, by: "") }
            } else if depth == 1, isWord(index, "CHECK"), isSymbol(index + 1, "(") {
                let next = afterParentheses(index + 1)
                let inside = bytes[tokens[index + 1].range.upperBound..<tokens[next - 1].range.lowerBound]
                let isKept = level.checks.contains(SQLText(String(decoding: inside, as: UTF8.self)).comparable)
                if isKept { index = next } else { replace(upTo: next, by: "CHECK (1)") }
            } else if depth == 1, isWord(index, "UNIQUE") {
                // Parentheses follow only in a constraint of the table.
                let isOfTable = isSymbol(index + 1, "(")
                replace(upTo: isOfTable ? afterParentheses(index + 1) : index + 1, by: isOfTable ? "CHECK (1)" : "")
            } else {
                if isSymbol(index, "(") { depth += 1 }
                if isSymbol(index, ")") { depth -= 1 }
                index += 1
            }
        }
        return String(decoding: text + bytes[end...], as: UTF8.self)
    }

    // MARK: With constraints

    /// Gives tables their declarations again.
    ///
    /// - Parameter names: the tables that stay as they are.
    /// - Throws: `AnnalsError` with code `waitingForMigration` if a row violates a constraint.
    package func tighten(except names: [String] = []) throws {
        for table in tables where !names.contains(where: { $0.isSameIdentifier(as: table.name) }) {
            try rebuild(table, by: table.sql)
            for object in table.objects { try refusing(table.name) { try db.execute(sql: object.statement) } }
            tables.removeAll { $0.name == table.name }
        }
    }

    private static func refused(_ table: String, _ error: DatabaseError) -> AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync",
            "rows of the space do not satisfy a constraint that only this store has in the table \(table): "
                + (error.message ?? "constraint failed"),
            hint: "Change these rows on a replica without the constraint, and sync both; or remove the constraint here. "
                + "Nothing was changed, and local work can continue", underlying: ViolatedConstraint(cause: error))
    }

    // MARK: Both

    private static let other = "annals_loose"

    /// Puts the rows into a table with this statement, without indexes and triggers.
    private func rebuild(_ table: Table, by statement: String) throws {
        let sequence =
            try table.definition.isAutoincrement
            ? Int64.fetchOne(db, sql: "SELECT seq FROM main.sqlite_sequence WHERE name = ?", arguments: [table.name]) : nil
        var columns = table.definition.columns.map(\.name)
        if table.definition.rowidAlias == nil, let rowid = table.definition.rowidName { columns.append(rowid) }
        let (list, name) = (columns.map(SQL.quote).joined(separator: ", "), SQL.quote(table.name))
        do {
            try db.execute(sql: "PRAGMA legacy_alter_table = ON")
            defer { SQLiteStatements.putBack("PRAGMA legacy_alter_table = OFF", on: db) }
            try db.execute(sql: "ALTER TABLE main.\(name) RENAME TO \(Self.other)")
            try db.execute(sql: statement)
            // A conflict clause of the table could skip or replace rows.
            try refusing(table.name) {
                try db.execute(sql: "INSERT OR ABORT INTO main.\(name) (\(list)) SELECT \(list) FROM main.\(Self.other)")
            }
            try db.execute(sql: "DROP TABLE main.\(Self.other)")
        }
        guard let sequence else { return }
        try db.execute(sql: "DELETE FROM main.sqlite_sequence WHERE name = ?", arguments: [table.name])
        try db.execute(sql: "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", arguments: [table.name, sequence])
    }
}

/// An index or a trigger of a table, as SQLite stores its statement. Indexes of constraints have none.
package struct TableObject {
    package var name: String
    var isIndex: Bool
    var isTemporary: Bool
    private var sql: String

    /// SQLite stores the statement of a TEMP trigger without the word TEMP.
    package var statement: String { isTemporary ? "CREATE TEMP" + sql.dropFirst("CREATE".count) : sql }

    /// In the order of their creation, because it decides in which order triggers run.
    package static func all(of table: String, _ db: Database) throws -> [TableObject] {
        try ["main", "temp"].flatMap { schema in
            let sql = """
                SELECT type, name, sql FROM \(schema).sqlite_master
                WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL
                ORDER BY rowid
                """
            return try Row.fetchAll(db, sql: sql, arguments: [table]).map { (row: Row) throws -> TableObject in
                let type: String = try row.value("type")
                return TableObject(
                    name: try row.value("name"), isIndex: type == "index", isTemporary: schema == "temp", sql: try row.value("sql"))
            }
        }
    }
}
