package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// The decisions about references that the schema does not declare, under canonical names. A store without a decision has no such
/// table.
package enum ReferenceTable {
    private static let place = "main.\(OwnTables.references)"
    private static let schema = """
        CREATE TABLE \(place) (
            name TEXT NOT NULL COLLATE NOCASE,
            columns TEXT NOT NULL COLLATE NOCASE,
            parent TEXT NOT NULL COLLATE NOCASE,
            parent_columns TEXT NOT NULL,
            on_delete INTEGER NOT NULL,
            condition TEXT NOT NULL,
            PRIMARY KEY (name, columns, parent)
        ) WITHOUT ROWID;
        """

    package static func exists(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS(SELECT 1 FROM main.sqlite_master WHERE name = '\(OwnTables.references)')")) ?? false
    }

    package static func load(_ db: Database) throws -> [ReferenceSetting] {
        try exists(db) ? read(db, from: place) : []
    }

    /// Applies decisions in their order. A target replaces an earlier one in the same table, and `none` replaces all.
    ///
    /// The table is dropped and created again, so that `schema_version` changes and every connection reads the decisions again. Call it
    /// when everything is recorded, in the same SQLite transaction.
    package static func set(_ db: Database, _ settings: [ReferenceSetting]) throws {
        guard !settings.isEmpty else { return }
        let before = try load(db)
        let after = merged(before, with: settings)
        if after != before { try save(after, db) }
    }

    /// The decisions after these settings, sorted. A member can send many settings, so each takes the same time.
    package static func merged(_ known: [ReferenceSetting], with settings: [ReferenceSetting]) -> [ReferenceSetting] {
        // By the folded name of the parent, which is empty for a decision against a reference.
        var found: [Key: [String: ReferenceSetting]] = [:]
        var count = 0
        for setting in known where found[Key(setting), default: [:]].updateValue(setting, forKey: parent(of: setting)) == nil { count += 1 }
        for setting in settings.map(\.sortedByColumns) where !setting.table.isEmpty && setting.target?.table != "" {
            let (key, name) = (Key(setting), parent(of: setting))
            var group = found.removeValue(forKey: key) ?? [:]
            count -= group.count
            switch setting.decision {
            case .undecided: continue
            case .none: group = [:]
            case .refers: group[""] = nil
            }
            // A limit for what other replicas send.
            if group[name] != nil || count + group.count < SchemaLimits.references { group[name] = setting }
            if !group.isEmpty { found[key] = group }
            count += group.count
        }
        return found.sorted { $0.key < $1.key }.flatMap { $0.value.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// The decisions about columns about which the others decide nothing.
    package static func undecided(_ settings: [ReferenceSetting], in others: [ReferenceSetting]) -> [ReferenceSetting] {
        let decided = Set(others.map { Key($0.sortedByColumns) })
        return settings.map(\.sortedByColumns).filter { !decided.contains(Key($0)) }
    }

    private static func parent(of setting: ReferenceSetting) -> String { setting.target?.table.foldedIdentifier ?? "" }

    /// The columns of a decision.
    private struct Key: Hashable, Comparable {
        var table: String
        var columns: String

        init(_ setting: ReferenceSetting) {
            table = setting.table.foldedIdentifier
            columns = setting.columns.map(\.foldedIdentifier).joined(separator: "\u{0}")
        }

        static func < (left: Key, right: Key) -> Bool { (left.table, left.columns) < (right.table, right.columns) }
    }

    /// Replaces all decisions.
    package static func save(_ settings: [ReferenceSetting], _ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS \(place)")
        if !settings.isEmpty {
            try db.execute(sql: schema)
            try write(settings, to: place, db)
        }
        try StoreSchema.noteSchemaVersion(db)
    }

    // MARK: In a snapshot

    /// Copies the decisions to a new table of this name in an attached snapshot. Without a decision there is no such table.
    package static func copy(_ db: Database, to table: String) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS \(table)")
        let settings = try load(db)
        guard !settings.isEmpty else { return }
        try db.execute(sql: "CREATE TABLE \(table) (name, columns, parent, parent_columns, on_delete, condition)")
        try write(settings, to: table, db)
    }

    /// Takes the decisions from a snapshot's table. Its maker can put anything into it.
    package static func take(from table: String, _ db: Database) throws {
        try save(merged([], with: read(db, from: table)), db)
    }

    // MARK: Rows

    private static func write(_ settings: [ReferenceSetting], to table: String, _ db: Database) throws {
        for setting in settings {
            let target = setting.target
            try db.execute(
                sql: "INSERT INTO \(table) (name, columns, parent, parent_columns, on_delete, condition) VALUES (?, ?, ?, ?, ?, ?)",
                arguments: [
                    setting.table, text(setting.columns), target?.table ?? "", text(target?.columns ?? []),
                    Int64(target?.onDelete.rawValue ?? 0), target?.condition ?? "",
                ])
        }
    }

    private static func text(_ names: [String]) throws -> String {
        String(decoding: try JSONEncoder().encode(names), as: UTF8.self)
    }

    private static func read(_ db: Database, from table: String) throws -> [ReferenceSetting] {
        // A snapshot may have more rows than a space has decisions.
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT name, columns, parent, parent_columns, on_delete, condition FROM \(table) ORDER BY name, columns, parent
                LIMIT \(SchemaLimits.references)
                """)
        return try rows.map { row in
            let (name, parent, condition): (String, String, String) = try (
                row.value("name"), row.value("parent"), row.value("condition")
            )
            let columns: [String] = try row.json("columns")
            guard !parent.isEmpty else { return ReferenceSetting(table: name, columns: columns, .none) }
            let action: Int64 = try row.value("on_delete")
            guard let onDelete = UInt8(exactly: action).flatMap(ReferenceTarget.DeleteAction.init) else {
                throw Corruption("\(OwnTables.references).on_delete")
            }
            let target = ReferenceTarget(
                table: parent, columns: try row.json("parent_columns"), onDelete: onDelete, condition: condition.isEmpty ? nil : condition)
            return ReferenceSetting(table: name, columns: columns, to: target)
        }
    }
}

extension ReferenceSetting {
    /// The same with the columns in the order of their names. So the order in which a person named them does not matter.
    var sortedByColumns: ReferenceSetting {
        let order = columns.indices.sorted { columns[$0].foldedIdentifier < columns[$1].foldedIdentifier }
        var sorted = self
        sorted.columns = order.map { columns[$0] }
        if var target, target.columns.count == columns.count {
            target.columns = order.map { target.columns[$0] }
            sorted.decision = .refers(target)
        }
        return sorted
    }

    /// The setting under other names, also within the condition.
    package func renamed(_ names: NameMap) -> ReferenceSetting {
        var renamed = self
        renamed.table = names.table(table)
        renamed.columns = columns.map { names.column($0, of: table) }
        if var target {
            target.columns = target.columns.map { names.column($0, of: target.table) }
            target.table = names.table(target.table)
            target.condition = target.condition.map { names.expression($0, of: table) }
            renamed.decision = .refers(target)
        }
        return renamed
    }
}
