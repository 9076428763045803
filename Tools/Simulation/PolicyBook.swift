import AnnalsCore

/// The conflict policies in force at one replica, computed from the settings. The narrower scope wins; in the same scope the
/// replica's own setting wins over the space's.
struct PolicyBook {
    /// The rules for one table.
    struct Rules {
        /// nil: column by column.
        var row: String?
        var column = "lastWriterWins"
        var columns: [String: String] = [:]
        var delete = "lastWriterWins"
        var unique = "keepFirst"
        var key = "renumber"
        var isWhole = false

        func policy(of column: String) -> String { columns[column] ?? self.column }

        fileprivate mutating func put(_ setting: PolicySetting) {
            switch setting.aspect {
            case .update:
                if let column = setting.column {
                    columns[column] = setting.policy
                } else if ["overwrite", "rollback", "manual"].contains(setting.policy) {
                    row = setting.policy
                } else {
                    (column, row) = (setting.policy, nil)
                }
            case .delete: delete = setting.policy
            case .unique: unique = setting.policy
            case .key: key = setting.policy
            case .whole: isWhole = setting.policy == "yes"
            case .schema: break
            }
        }
    }

    private struct Place: Hashable {
        var table: String?
        var column: String?
        var aspect: PolicySetting.Aspect
    }

    private var space: [Place: PolicySetting] = [:]
    private var own: [Place: PolicySetting] = [:]

    /// The space's settings, for a comparison.
    var settings: Set<PolicySetting> { Set(space.values) }

    mutating func set(_ settings: [PolicySetting]) { Self.put(settings, &space) }

    mutating func override(_ settings: [PolicySetting]) { Self.put(settings, &own) }

    private static func put(_ settings: [PolicySetting], _ book: inout [Place: PolicySetting]) {
        for setting in settings {
            let place = Place(table: setting.table, column: setting.column, aspect: setting.aspect)
            book[place] = setting.policy.isEmpty ? nil : setting
        }
    }

    func rules(_ table: String) -> Rules {
        var rules = Rules()
        for scope in [nil, table] {
            for isOfColumn in [false, true] {
                for setting in Array(space.values) + Array(own.values) where setting.table == scope && (setting.column != nil) == isOfColumn
                {
                    rules.put(setting)
                }
            }
        }
        return rules
    }

    /// Whether the policy can combine values of a column into a new value.
    func combines(_ table: Table, _ place: Int) -> Bool {
        let policy = rules(table.name).policy(of: table.columns[place].name)
        return ["sum", "min", "max", "union", "json", "text"].contains(policy) || policy.hasPrefix("sql:")
    }
}
