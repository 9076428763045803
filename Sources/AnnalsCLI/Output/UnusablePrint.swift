import AnnalsHistory
import AnnalsSchema

/// Prints what tables use and this program does not have.
enum UnusablePrint {
    static func json(_ tables: [UnusableTable]) -> JSON {
        .array(
            tables.map { table in
                .object(["table": .text(table.table), "tracked": .bool(table.isTracked), "missing": json(table.missing)])
            })
    }

    static func json(_ missing: [UnusableTable.Missing]) -> JSON {
        .array(
            missing.map { use in
                let (place, object) = words(use.place)
                return .object([
                    "kind": .text(use.kind.rawValue), "name": .text(use.name), "place": .text(place), "object": .text(object),
                ])
            })
    }

    private static func words(_ place: UnusableTable.Missing.Place) -> (place: String, object: String?) {
        switch place {
        case .table: ("table", nil)
        case .key: ("key", nil)
        case .column(let name): ("column", name)
        case .generatedColumn(let name): ("generatedColumn", name)
        case .check: ("check", nil)
        case .index(let name): ("index", name)
        case .trigger(let name): ("trigger", name)
        }
    }

    /// What does not work with a tracked table, and what to do; without the table's name.
    static func line(_ table: UnusableTable) -> String {
        let effect = table.isOnlyInTriggers ? "rows of other replicas cannot be applied" : "it cannot be in a space"
        return PrintableText.of(
            "\(table.message), which annals does not have: its changes are captured, but \(effect). "
                + "Load the extension that has it with --load-extension")
    }

    /// A line for each table, after a join.
    static func notes(_ tables: [UnusableTable]) -> [String] {
        tables.compactMap { table in
            if table.isTracked { return "\(PrintableText.of(table.table)): \(line(table))" }
            return table.isOnlyInTriggers ? nil : leftOutLine(table)
        }
    }

    private static func leftOutLine(_ table: UnusableTable) -> String {
        PrintableText.of(
            "the untracked table \(table.table) is left out of new replicas: \(table.message), which annals does not have. "
                + "Load the extension that has it with --load-extension")
    }

    /// Why a table is not tracked, and what to do.
    static func words(_ refusal: Refusal) -> String {
        guard case .unknownCollation = refusal else { return refusal.message }
        return "\(refusal.message), or load the extension that has it with --load-extension"
    }
}
