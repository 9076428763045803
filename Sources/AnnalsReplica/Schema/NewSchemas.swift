import AnnalsCore
package import GRDB

/// Who creates the tables and columns that other replicas added to the space's schema.
public enum NewSchemas: String, Sendable, CaseIterable {
    /// The store's own program, when it migrates. Until then their cells are deferred.
    case wait
    /// Annals, at each exchange, when the log adds them. For a store that no program migrates.
    case take
    /// Annals, at each exchange, if a policy of the space says `take`.
    case asSpaceSays
}

extension NewSchemas {
    /// Whether Annals makes the schema changes of the log in this store.
    package func takes(_ db: Database) throws -> Bool {
        try self == .take || self == .asSpaceSays && Self.ofSpace(db) == .take
    }

    /// The setting of the space's policies; see `PolicySetting.Aspect.schema`.
    private static func ofSpace(_ db: Database) throws -> NewSchemas {
        let setting = try PolicyTable.load(db).last { $0.setting.aspect == .schema }
        return setting.flatMap { NewSchemas(rawValue: $0.setting.policy) } ?? .wait
    }
}
