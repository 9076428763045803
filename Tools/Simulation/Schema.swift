import AnnalsCore

/// A random schema in two forms: SQL for the product, and plain values and closures for the oracle. Both are drawn together, and
/// the oracle never reads SQL.
struct Schema: Sendable {
    var tables: [Table] = []
    /// The user's untracked tables and triggers.
    var extras: [String] = []
    /// Untracked copies that triggers write: each row of the table must be in the copy with the same value.
    var copies: [Copy] = []
    /// Whether the statements use collations and functions of a program (`ProgramFunctions`).
    var usesProgram = false
    /// A constraint that changes during the run; `tables` have the form before.
    var change: ConstraintChange?

    struct Copy: Sendable {
        var table: String
        var name: String
        var column: String
        /// Fills the copy from existing rows, because a clone's untracked tables are empty.
        var fill: String
    }

    func table(_ name: String) -> Table? {
        tables.first { $0.name == name }
    }

    /// The decisions about references that the schema does not declare.
    var referenceSettings: [ReferenceSetting] {
        tables.flatMap { table in
            table.references.filter { !$0.isDeclared }.map { reference in
                let target = ReferenceTarget(
                    table: reference.parent, columns: reference.parentNames, onDelete: reference.onDelete.undeclared)
                return ReferenceSetting(table: table.name, columns: reference.columns.map { table.columns[$0].name }, to: target)
            }
        }
    }

    /// The schema after its constraint has changed.
    var changed: Schema? {
        guard let change, let place = tables.firstIndex(where: { $0.name == change.after.name }) else { return nil }
        var changed = self
        changed.tables[place] = change.after
        return changed
    }

    var statements: [String] {
        let statements = tables.map(\.createSQL) + tables.flatMap(\.indexSQL) + extras
        return usesProgram ? statements.map(ProgramFunctions.used) : statements
    }
}

/// The kind of values in a column.
enum Kind: Sendable {
    case integer, real, text, any

    func declared(isStrict: Bool) -> String {
        switch self {
        case .integer: "INTEGER"
        case .real: "REAL"
        case .text: "TEXT"
        case .any: isStrict ? "ANY" : ""
        }
    }
}

struct Column: Sendable {
    var name: String
    var kind: Kind
    var collation = Collation.binary
    var isNotNull = false
    var defaultValue: Cell?
    /// The values that the workload writes. There are only a few, so that rows conflict.
    var domain: [Cell]
}

/// A column or an expression in a unique index.
struct Part: Sendable {
    var sql: String
    var collation: Collation
    var value: @Sendable ([Cell]) -> Cell
}

/// A UNIQUE constraint or index.
struct Unique: Sendable {
    var parts: [Part]
    /// An index's name; nil for a constraint of the table.
    var index: String?
    /// The WHERE clause of a partial index.
    var condition: (sql: String, holds: @Sendable ([Cell]) -> Bool)?
}

enum Action: String, Sendable, CaseIterable {
    case noAction = "NO ACTION"
    case restrict = "RESTRICT"
    case setNull = "SET NULL"
    case setDefault = "SET DEFAULT"
    case cascade = "CASCADE"

    /// What a decision can name: no action instead of SET DEFAULT.
    var undeclared: ReferenceTarget.DeleteAction {
        switch self {
        case .noAction, .setDefault: .noAction
        case .restrict: .restrict
        case .setNull: .setNull
        case .cascade: .cascade
        }
    }
}

struct Reference: Sendable {
    /// Indices of the child's columns and of the parent's.
    var columns: [Int]
    var parent: String
    var parentColumns: [Int]
    var parentNames: [String]
    /// The collations of the parent's columns.
    var collations: [Collation]
    var onDelete: Action
    var onUpdate: Action
    var isDeferred: Bool
    /// Whether the schema declares it. If it does not, the space's decisions name it.
    var isDeclared = true
}

struct Check: Sendable {
    var sql: String
    var holds: @Sendable ([Cell]) -> Bool
}

struct Table: Sendable {
    var name: String
    /// Stored columns; generated columns are declared separately.
    var columns: [Column]
    /// Indices of the key's columns, in the key's order.
    var key: [Int]
    /// The key is the rowid.
    var hasIntegerKey: Bool
    /// The key accepts NULL. Rows with NULL in the key are not synced.
    var keyMayBeNull = false
    var isWithoutRowid = false
    var isStrict = false
    var generated: [String] = []
    var uniques: [Unique] = []
    var references: [Reference] = []
    var checks: [Check] = []

    func key(of row: [Cell]) -> [Cell] {
        key.map { columns[$0].collation.folded(row[$0]) }
    }

    func names(_ places: [Int]) -> String {
        places.map { columns[$0].name }.joined(separator: ", ")
    }

    /// Holds for the rows that are synced.
    var hasWholeKeySQL: String {
        keyMayBeNull ? key.map { "\(columns[$0].name) IS NOT NULL" }.joined(separator: " AND ") : "1"
    }

    var createSQL: String {
        var lines = columns.indices.map(columnSQL) + generated
        if !hasIntegerKey { lines.append("PRIMARY KEY (\(names(key)))") }
        lines += uniques.filter { $0.index == nil }.map { "UNIQUE (\($0.parts.map(\.sql).joined(separator: ", ")))" }
        lines += references.filter(\.isDeclared).map(referenceSQL)
        lines += checks.map { "CHECK (\($0.sql))" }
        let options = [isWithoutRowid ? "WITHOUT ROWID" : nil, isStrict ? "STRICT" : nil].compactMap { $0 }
        return "CREATE TABLE \(name) (\(lines.joined(separator: ", ")))" + (options.isEmpty ? "" : " " + options.joined(separator: ", "))
    }

    var indexSQL: [String] {
        uniques.compactMap { unique in
            unique.index.map { index in
                "CREATE UNIQUE INDEX \(index) ON \(name) (\(unique.parts.map(\.sql).joined(separator: ", ")))"
                    + (unique.condition.map { " WHERE \($0.sql)" } ?? "")
            }
        }
    }

    private func columnSQL(_ place: Int) -> String {
        let column = columns[place]
        var words = [column.name, column.kind.declared(isStrict: isStrict)].filter { !$0.isEmpty }
        if hasIntegerKey, key == [place] { words.append("PRIMARY KEY") }
        if column.isNotNull, !(hasIntegerKey && key == [place]), !(keyMayBeNull && key.contains(place)) { words.append("NOT NULL") }
        if column.collation != .binary { words.append("COLLATE \(column.collation.rawValue)") }
        if let value = column.defaultValue { words.append("DEFAULT \(value.literal)") }
        return words.joined(separator: " ")
    }

    private func referenceSQL(_ reference: Reference) -> String {
        "FOREIGN KEY (\(names(reference.columns))) REFERENCES \(reference.parent) (\(reference.parentNames.joined(separator: ", ")))"
            + " ON DELETE \(reference.onDelete.rawValue) ON UPDATE \(reference.onUpdate.rawValue)"
            + (reference.isDeferred ? " DEFERRABLE INITIALLY DEFERRED" : "")
    }
}
