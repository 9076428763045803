package import AnnalsCore
import AnnalsSQLite

/// Compares the declarations of tracked tables of two replicas. If only one of them had a constraint, key or column, it could write
/// rows that the other cannot store. So a store that differs is not joined to the space.
package enum SchemaAgreement {
    /// Throws `AnnalsError` with code `schemaRefused`, which names the first table that differs and the difference.
    package static func check(_ here: TrackedTables, _ space: TrackedTables, operation: String = "join") throws {
        for entry in space.entries where here.table(first: entry.first.name) == nil {
            throw refused(
                operation, "the space has the table \(entry.definition.name), which is not tracked here",
                "Declare it as in the space, and track it")
        }
        for entry in here.entries {
            guard let theirs = space.table(first: entry.first.name) else {
                throw refused(
                    operation, "the table \(entry.definition.name) is tracked here but is not in the space",
                    "Call untrack(_:) for it", commandHint: "Run annals untrack for it")
            }
            if let difference = difference(entry.first, theirs.first) {
                throw refused(
                    operation, "the table \(entry.definition.name) differs from the space's declaration: \(difference)",
                    "Declare it here as in the space. A space accepts new tables and columns; other changes need another space: leave "
                        + "this one, migrate, and join the other"
                )
            }
        }
    }

    package static func refused(_ operation: String, _ message: String, _ hint: String, commandHint: String? = nil) -> AnnalsError {
        AnnalsError(.schemaRefused, operation: operation, message, hint: hint, commandHint: commandHint)
    }

    /// The difference in a few words; nil if there is none that affects rows.
    package static func difference(_ one: DeclaredTable, _ other: DeclaredTable) -> String? {
        let columns = names(one)
        let others = names(other)
        if columns != others {
            let only = Set(columns).symmetricDifference(others).sorted()
            return only.isEmpty ? "the order of its columns" : "its columns (\(only.joined(separator: ", ")))"
        }
        if key(one) != key(other) { return "its primary key" }
        if one.isStrict != other.isStrict || one.isWithoutRowid != other.isWithoutRowid { return "STRICT or WITHOUT ROWID" }
        for (column, theirs) in zip(one.columns, other.columns) {
            let isAlike =
                column.affinity == theirs.affinity && column.isNotNull == theirs.isNotNull
                && column.collation.uppercased() == theirs.collation.uppercased()
            if !isAlike { return "the column \(column.name)" }
        }
        if expressions(one) != expressions(other) { return "its generated columns" }
        if uniques(one) != uniques(other) { return "its UNIQUE constraints or indexes" }
        if references(one) != references(other) { return "its foreign keys" }
        if checks(one) != checks(other) { return "its CHECK constraints" }
        return nil
    }

    /// Whether two tables differ only in constraints that the first one does not have: NOT NULL, UNIQUE, CHECK and foreign keys. Then it
    /// accepts each row that the second one accepts.
    package static func isRelaxed(_ one: DeclaredTable, from other: DeclaredTable) -> Bool {
        differenceBesidesRemovedConstraints(one, other) == nil
    }

    /// The difference in a few words; nil if the first table only lacks constraints of the second one.
    package static func differenceBesidesRemovedConstraints(_ one: DeclaredTable, _ other: DeclaredTable) -> String? {
        var strict = one
        func isSubset(_ some: [String], _ all: [String]) -> Bool { Set(some).isSubset(of: all) }
        for (index, column) in other.columns.prefix(one.columns.count).enumerated() where column.isNotNull {
            strict.columns[index].isNotNull = true
        }
        if isSubset(uniques(one), uniques(other)) { strict.uniqueIndexes = other.uniqueIndexes }
        if isSubset(references(one), references(other)) { strict.foreignKeys = other.foreignKeys }
        if isSubset(checks(one), checks(other)) { strict.checks = other.checks }
        return difference(strict, other)
    }

    /// Whether two tables differ only in NOT NULL, UNIQUE and CHECK constraints that the second one does not have.
    package static func isTightened(_ one: DeclaredTable, from other: DeclaredTable) -> Bool {
        difference(one, other) != nil && references(one) == references(other) && isRelaxed(other, from: one)
    }

    /// The constraints that a table has besides its primary key, each as a text that is equal on all replicas.
    package static func constraints(_ table: DeclaredTable) -> Set<String> {
        var all = table.columns.filter(\.isNotNull).map { "NOT NULL \($0.name.foldedIdentifier)" }
        all += uniques(table).map { "UNIQUE \($0)" }
        all += references(table).map { "FOREIGN KEY \($0)" }
        all += checks(table).map { "CHECK \($0)" }
        return Set(all)
    }

    /// For each unique index of a table, whether another declaration of the table has it too.
    package static func uniques(_ table: DeclaredTable, in other: DeclaredTable) -> [Bool] {
        let known = Set(uniques(other))
        return table.uniqueIndexes.map { known.contains(unique($0)) }
    }

    private static func names(_ table: DeclaredTable) -> [String] {
        table.columns.map(\.name.foldedIdentifier)
    }

    private static func key(_ table: DeclaredTable) -> [String] {
        zip(table.primaryKey, table.primaryKeyCollations).map { "\(names(table)[$0]) \($1.uppercased())" }
            + (table.rowidAlias == nil ? [] : ["rowid"])
    }

    private static func uniques(_ table: DeclaredTable) -> [String] {
        Set(table.uniqueIndexes.map(unique)).sorted()
    }

    private static func unique(_ index: DeclaredTable.UniqueIndex) -> String {
        let columns = index.columns.map { "\($0.name?.foldedIdentifier ?? "expression") \($0.collation.uppercased())" }
        // The text of an expression or a condition is only in the statement.
        let text = index.hasExpression || index.isPartial ? index.sql.map { SQLText($0).comparableBody } ?? "" : ""
        return columns.joined(separator: ", ") + text
    }

    private static func expressions(_ table: DeclaredTable) -> [String?] {
        table.generatedColumns.map { $0.expression.map { SQLText($0).comparable } }
    }

    private static func checks(_ table: DeclaredTable) -> [String] {
        Set(table.checks.map { SQLText($0).comparable }).sorted()
    }

    private static func references(_ table: DeclaredTable) -> [String] {
        table.foreignKeys.map { key in
            """
            \(key.columns.map(\.foldedIdentifier)) \(key.parentTable.foldedIdentifier) \(key.parentColumns.map(\.foldedIdentifier)) \
            \(key.onDelete.rawValue) \(key.onUpdate.rawValue)
            """
        }.sorted()
    }
}
