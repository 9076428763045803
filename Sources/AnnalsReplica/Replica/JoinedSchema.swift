import AnnalsCore
package import AnnalsSchema
package import GRDB

/// The differences that are allowed between the schema of a joining store and the space's schema.
public enum JoinedSchema: String, Sendable, CaseIterable {
    /// None: the tracked tables and their columns must be the same.
    case equal
    /// Additions on either side. Additions of the space are deferred until the store is migrated. Tables that only the store has are added
    /// to the space.
    case additions
}

extension SchemaComparison {
    /// Compares the tables of a joining store with the tables of a copy of the space.
    ///
    /// - Parameter untracked: the names of the store's tables that are not tracked.
    /// - Throws: `AnnalsError` with code `schemaRefused`, with the name and the kind of the difference. Also for additions, unless they are
    ///   allowed.
    package static func joining(
        _ here: TrackedTables, _ copy: Database, _ allowed: JoinedSchema, untracked: [String] = []
    ) throws -> SchemaComparison {
        let space = try SpaceSchema.load(copy) ?? SpaceSchema(TrackedTables.load(copy))
        let comparison = try SchemaComparison(
            here, space, missingSchema: .between(space, here).additions(to: space), operation: "join", isMember: false)
        if let change = comparison.additions.columns.first {
            throw SchemaAgreement.refused(
                "join",
                "the table \(change.table) differs from the space's declaration: its columns "
                    + "(\(change.columns.map(\.name).joined(separator: ", ")))",
                "Nothing was changed. Add them on a replica of the space first, or join without them and add them afterwards")
        }
        guard allowed == .equal, !comparison.isAlike else { return comparison }
        let missingSchema = comparison.behind.names(in: space)
        let present = missingSchema.filter { name in untracked.contains { $0.isSameIdentifier(as: name) } }
        if !present.isEmpty {
            let names = present.joined(separator: ", ")
            throw SchemaAgreement.refused(
                "join", "the space has \(names), and the store does not track \(present.count == 1 ? "its table of that name" : "them")",
                "Nothing was changed. Track \(names), or join with schema: .additions, which keeps the space's rows of these tables out",
                commandHint: "Nothing was changed. Track \(names) with annals track, and join again")
        }
        let more = comparison.additions.tables.map(\.name)
        var message: [String] = []
        if !missingSchema.isEmpty { message.append("the store does not have \(missingSchema.joined(separator: ", ")) of the space") }
        if !more.isEmpty { message.append("the space does not have \(more.joined(separator: ", "))") }
        let first =
            "Nothing was changed. Migrate the store first\(more.isEmpty ? "" : ", or untrack the tables that the space must not have"); or "
            + "join with"
        let effect = "which stores the missing tables and columns until the store is migrated, and adds its own tables to the space"
        throw SchemaAgreement.refused(
            "join", message.joined(separator: ", and "), "\(first) schema: .additions, \(effect)",
            commandHint: "\(first) --schema additions, \(effect)")
    }
}

extension MissingSchema {
    /// Tables, and the columns that were added later: rows without these columns have the same default on every replica.
    fileprivate func additions(to space: SpaceSchema) -> MissingSchema {
        var additions = MissingSchema()
        for table in tables { additions.insert(table: table) }
        for (table, columns) in columns {
            for column in columns where space.isAdded(column, of: table) { additions.insert(column, of: table) }
        }
        return additions
    }
}
