import AnnalsCore
import AnnalsSQLite
import GRDB

/// The objects of the connection's temp schema. They are checked before entries are applied on the connection.
struct TemporarySchema {
    private let tables: Set<String>
    private let triggers: [Row]

    init(_ db: Database) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT type, name, tbl_name, sql FROM temp.sqlite_master WHERE type IN ('table', 'view', 'trigger')")
        self.tables = try Set(rows.filter { try $0.value("type") != "trigger" }.map { try ($0.value("name") as String).foldedIdentifier })
        self.triggers = try rows.filter { try $0.value("type") == "trigger" }
    }

    /// - Throws: `AnnalsError` with code `schemaRefused` if a temporary table has a name that a trigger of the file writes or
    ///   reads, or if a TEMP trigger of the program could change or refuse tracked rows.
    package func check(for userTriggers: UserTriggers) throws {
        for trigger in userTriggers.temporaries {
            guard let table = trigger.words.intersection(tables).min() else { continue }
            throw refusal("the temporary table \"\(table)\" has a name that the trigger \"\(trigger.name)\" uses")
        }
        for trigger in triggers where try isFired(trigger, by: userTriggers) && !isSafe(trigger, userTriggers) {
            throw refusal("the temporary trigger \"\(try trigger.value("name") as String)\" would run while entries are applied")
        }
    }

    private func isFired(_ trigger: Row, by userTriggers: UserTriggers) throws -> Bool {
        let table = try (trigger.value("tbl_name") as String).foldedIdentifier
        return userTriggers.reached.contains(table) && !tables.contains(table)
    }

    private func isSafe(_ trigger: Row, _ userTriggers: UserTriggers) throws -> Bool {
        guard let definition = try TriggerDefinition(sql: trigger.value("sql") ?? ""), definition.conditionRaises.isEmpty else {
            return false
        }
        return definition.statements.allSatisfy { statement in
            guard case .writes(let target, _) = statement.effect else { return statement.raises.isEmpty }
            let name = target.foldedIdentifier
            return statement.raises.isEmpty && (tables.contains(name) || !userTriggers.tracked.contains(name))
        }
    }

    private func refusal(_ message: String) -> AnnalsError {
        AnnalsError(.schemaRefused, operation: "apply", message, hint: "Drop it, or use another connection for syncing")
    }
}
