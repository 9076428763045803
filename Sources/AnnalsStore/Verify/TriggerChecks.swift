import GRDB

/// Whether capture is in place (law 1).
struct TriggerChecks {
    let db: Database

    func run() throws -> [Finding] {
        try TrackedTable.fetchTracked(db).compactMap { table in
            guard let definition = try SchemaReader(db).table(table.name), definition.kind == .table else {
                return Finding(.trigger, "the table \(table.name) is tracked, but is not there", table: table.name)
            }
            let triggers = try CaptureTriggers(db, table: definition, id: table.id)
            let installed = try InstalledTriggers(db, id: table.id)
            if installed.hold(triggers.beforeChange), triggers.arePresent(in: installed) { return nil }
            return Finding(
                .trigger, "a trigger that captures changes of \(table.name) is missing or altered: changes may have been missed",
                table: table.name)
        }
    }
}
