import AnnalsCore
package import GRDB

/// Who makes tables and columns in a store that the space's schema got from another replica.
public enum NewSchemas: String, Sendable, CaseIterable {
    /// The program that the store belongs to, when it migrates. What the log says there is kept until then.
    case wait
    /// Each exchange, as the log tells of them; for a store that no program migrates.
    case take
    /// Each exchange, if a policy of the space says `take`.
    case asSpaceSays
}

extension NewSchemas {
    /// What the space's policies say; see `PolicySetting.Aspect.schema`.
    package static func ofSpace(_ db: Database) throws -> NewSchemas {
        let setting = try PolicyTable.load(db).last { $0.setting.aspect == .schema }
        return setting.flatMap { NewSchemas(rawValue: $0.setting.policy) } ?? .wait
    }
}
