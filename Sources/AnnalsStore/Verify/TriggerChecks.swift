import AnnalsHistory
import AnnalsSchema
import GRDB

/// Checks that the capture triggers are installed (law 1).
struct TriggerChecks {
    let db: Database

    func run() throws -> [Finding] {
        // If another program renamed a table, its changes are captured under the new name, and the next recording adopts the name.
        let renamed = try TableRenames(db).pending()
        let names = try NamedWriters.problem(db).map { [Finding(.trigger, $0)] } ?? []
        return try names
            + TrackedTable.fetchTracked(db).compactMap { table -> Finding? in
                let name = renamed.first { $0.table.id == table.id }?.name ?? table.name
                guard let definition = try SchemaReader(db).table(name), definition.kind == .table else {
                    return Finding(.trigger, "the table \(table.name) is tracked but does not exist", table: table.name)
                }
                guard !definition.primaryKey.isEmpty else {
                    let message = "the table \(table.name) was replaced by one without a primary key: its changes are not captured"
                    return Finding(.trigger, message, table: table.name)
                }
                let triggers = try CaptureTriggers(db, table: definition, id: table.id)
                let installed = try InstalledTriggers(db, id: table.id)
                if installed.hold(triggers.beforeChange), triggers.arePresent(in: installed) { return nil }
                return Finding(
                    .trigger, "a capture trigger of \(table.name) is missing or altered: changes may have been missed",
                    table: table.name)
            }
    }
}
