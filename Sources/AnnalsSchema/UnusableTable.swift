import AnnalsCore
import AnnalsSQLite
package import GRDB

/// A table that uses functions, collations or modules that this program does not have. Only the program that created the table, or an
/// extension of SQLite, adds them to its connections.
///
/// Writes of other programs to the table are captured. But this program may not be able to write its rows, and cannot create the table in
/// another file.
public struct UnusableTable: Hashable, Sendable {
    /// A function, a collation or a module that this program does not have, and where the table uses it.
    public struct Missing: Hashable, Sendable {
        public enum Kind: String, Hashable, Sendable {
            case function, collation, module
        }

        public enum Place: Hashable, Sendable {
            /// The table itself, which is a virtual table.
            case table
            case key
            case column(String)
            case generatedColumn(String)
            case check
            case index(String)
            case trigger(String)
        }

        public var kind: Kind
        public var name: String
        public var place: Place

        package init(kind: Kind, name: String, place: Place) {
            self.kind = kind
            self.name = name
            self.place = place
        }

        /// What uses it, such as "its index by_name uses the collation unicase".
        public var message: String {
            let user =
                switch place {
                case .table: "it"
                case .key: "its key"
                case .column(let name): "its column \(name)"
                case .generatedColumn(let name): "its generated column \(name)"
                case .check: "a CHECK of it"
                case .index(let name): "its index \(name)"
                case .trigger(let name): "its trigger \(name)"
                }
            return "\(user) uses the \(kind.rawValue) \(name)\(kind == .function ? "()" : "")"
        }
    }

    public var table: String
    public var isTracked: Bool
    public var missing: [Missing]

    package init(table: String, isTracked: Bool, missing: [Missing]) {
        self.table = table
        self.isTracked = isTracked
        self.missing = missing
    }

    /// Whether only triggers use what is missing. Then this program can create the table in another file.
    public var isOnlyInTriggers: Bool {
        missing.allSatisfy { if case .trigger = $0.place { true } else { false } }
    }

    /// What is missing, in one sentence without the table's name.
    public var message: String { missing.map(\.message).joined(separator: ", ") }

    /// The tables of the file that use something unknown, sorted by name.
    package static func fetchAll(_ db: Database) throws -> [UnusableTable] {
        let known = try KnownNames(db)
        let tracked = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        return try SchemaReader(db).tables().compactMap { table in
            let missing = try known.missing(for: table)
            guard !missing.isEmpty else { return nil }
            return UnusableTable(table: table.name, isTracked: tracked.contains(table.name.foldedIdentifier), missing: missing)
        }
    }

    /// What one table uses and the connection does not have.
    ///
    /// - Parameter onlyEverywhere: what only this program added to the connection counts as missing too.
    package static func missing(for table: DeclaredTable, _ db: Database, onlyEverywhere: Bool = false) throws -> [Missing] {
        try KnownNames(db, onlyEverywhere: onlyEverywhere).missing(for: table)
    }
}

extension Collation {
    /// The collations that GRDB adds. Every connection of a program with Annals has them.
    package static let ofGRDB: [String] = [
        DatabaseCollation.unicodeCompare, .caseInsensitiveCompare, .localizedCaseInsensitiveCompare, .localizedCompare,
        .localizedStandardCompare,
    ].map(\.name)

    /// Whether every program with Annals has the collation.
    package static func isEverywhere(_ name: String) -> Bool {
        isBuiltIn(name) || ofGRDB.contains { $0.isSameIdentifier(as: name) }
    }

    /// Whether the connection has the collation.
    package static func isKnown(_ name: String, _ db: Database) -> Bool {
        // SQLite's list of collations also has those that it searched for and did not find, so the list cannot be used.
        isBuiltIn(name) || (try? SQLiteStatements.compile("SELECT '' < '' COLLATE \(SQL.quote(name))", on: db)) != nil
    }
}

/// What a connection has: SQLite's own functions, collations and modules, and those that the program added.
private struct KnownNames {
    private let db: Database
    private let functions: Set<String>
    private let modules: Set<String>
    private let onlyEverywhere: Bool

    init(_ db: Database, onlyEverywhere: Bool = false) throws {
        self.db = db
        self.onlyEverywhere = onlyEverywhere
        let sql = "SELECT name FROM pragma_function_list WHERE builtin OR \(!onlyEverywhere)"
        functions = Set(try String.fetchAll(db, sql: sql).map(\.foldedIdentifier))
        modules = Set(try String.fetchAll(db, sql: "SELECT name FROM pragma_module_list").map(\.foldedIdentifier))
    }

    func missing(for table: DeclaredTable) throws -> [UnusableTable.Missing] {
        var uses = Uses()
        try readDeclaration(of: table, &uses)
        if table.kind == .table { try readTriggers(of: table, &uses) }
        return uses.all.filter(isMissing)
    }

    private func readDeclaration(of table: DeclaredTable, _ uses: inout Uses) throws {
        switch table.kind {
        case .view, .shadow: break
        case .virtual: try readModule(of: table, &uses)
        case .table:
            readColumns(of: table, &uses)
            try readIndexes(of: table, &uses)
        }
    }

    private func isMissing(_ use: UnusableTable.Missing) -> Bool {
        let name = use.name.foldedIdentifier
        return switch use.kind {
        case .collation: onlyEverywhere ? !Collation.isEverywhere(use.name) : !Collation.isKnown(use.name, db)
        case .module: !modules.contains(name)
        // A table-valued function is a module. SQLite adds those of its pragmas when a statement uses them.
        case .function: !functions.contains(name) && !modules.contains(name) && !name.hasPrefix("pragma_")
        }
    }

    /// The uses of functions, collations and modules, each once.
    private struct Uses {
        private(set) var all: [UnusableTable.Missing] = []

        mutating func note(_ kind: UnusableTable.Missing.Kind, _ name: String, _ place: UnusableTable.Missing.Place) {
            let use = UnusableTable.Missing(kind: kind, name: name, place: place)
            if !all.contains(use) { all.append(use) }
        }

        mutating func note(in sql: String, _ place: UnusableTable.Missing.Place) {
            let tokens = SQLToken.all(in: sql)
            for name in tokens.calledFunctions { note(.function, name, place) }
            for name in tokens.collations { note(.collation, name, place) }
        }
    }

    private func readModule(of table: DeclaredTable, _ uses: inout Uses) throws {
        let select = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?"
        let sql = try String.fetchOne(db, sql: select, arguments: [table.name])
        if let module = sql.flatMap({ SQLText($0).virtualTableModule }) { uses.note(.module, module, .table) }
    }

    private func readColumns(of table: DeclaredTable, _ uses: inout Uses) {
        for collation in table.primaryKeyCollations { uses.note(.collation, collation, .key) }
        let keyCollations = Dictionary(zip(table.primaryKey, table.primaryKeyCollations), uniquingKeysWith: { first, _ in first })
        for (columnIndex, column) in table.columns.enumerated() {
            if let own = keyCollations[columnIndex], own.isSameIdentifier(as: column.collation) { continue }
            uses.note(.collation, column.collation, .column(column.name))
        }
        for column in table.generatedColumns {
            uses.note(.collation, column.collation, .generatedColumn(column.name))
            if let expression = column.expression { uses.note(in: expression, .generatedColumn(column.name)) }
        }
        for check in table.checks { uses.note(in: check, .check) }
    }

    private func readIndexes(of table: DeclaredTable, _ uses: inout Uses) throws {
        let columns = Set(table.columns.map(\.collation.foldedIdentifier))
        let list = "SELECT name, origin FROM pragma_index_list(?, 'main') ORDER BY name"
        for row in try Row.fetchAll(db, sql: list, arguments: [table.name]) {
            let (name, origin): (String, String) = try (row.value("name"), row.value("origin"))
            guard origin != "pk" else { continue }
            // The index of a UNIQUE constraint usually has the collations of the columns, and no name of its own.
            let isConstraint = origin == "u"
            for column in try Row.fetchAll(db, sql: "PRAGMA main.index_xinfo(\(SQL.quote(name)))") where try column.value("key") == 1 {
                guard let collation: String = try column.value("coll") else { continue }
                if !isConstraint || !columns.contains(collation.foldedIdentifier) { uses.note(.collation, collation, .index(name)) }
            }
            let select = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?"
            let sql = try String.fetchOne(db, sql: select, arguments: [name])
            guard let text = sql.map({ SQLText($0) }) else { continue }
            for expression in text.indexExpressions { uses.note(in: expression, .index(name)) }
            if let condition = text.indexCondition { uses.note(in: condition, .index(name)) }
        }
    }

    private func readTriggers(of table: DeclaredTable, _ uses: inout Uses) throws {
        let sql = "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY name"
        for row in try Row.fetchAll(db, sql: sql, arguments: [table.name]) {
            let (name, text): (String, String?) = try (row.value("name"), row.value("sql"))
            guard !StoreSchema.isOwnName(name), let text else { continue }
            uses.note(in: text, .trigger(name))
            for case .writes(let target, _) in TriggerDefinition(sql: text)?.statements.map(\.effect) ?? [] {
                try noteWritten(target, by: name, of: table, &uses)
            }
        }
    }

    /// A trigger needs what the table that it writes needs.
    private func noteWritten(_ target: String, by trigger: String, of table: DeclaredTable, _ uses: inout Uses) throws {
        guard !target.isSameIdentifier(as: table.name), let written = try SchemaReader(db).table(target) else { return }
        var declaration = Uses()
        try readDeclaration(of: written, &declaration)
        for use in declaration.all { uses.note(use.kind, use.name, .trigger(trigger)) }
    }
}
