import AnnalsHistory
import AnnalsStore

/// Prints the result of tracking.
enum TrackingPrint {
    static func json(_ store: String, _ report: TrackingReport) -> JSON {
        .object([
            "store": .text(store), "dryRun": .bool(report.isDryRun), "hadLostHistory": .bool(report.hadLostHistory),
            "tables": .array(
                report.tables.map { table in
                    let (outcome, reason) = words(table.outcome)
                    return .object([
                        "table": .text(table.name), "outcome": .text(outcome), "reason": .text(reason),
                        "provisionalKeys": .bool(table.hasProvisionalKeys), "rowsWithNullKey": .integer(table.rowsWithNullKey.count),
                        "foreignKeyViolations": .array(
                            table.foreignKeyViolations.map { violation in
                                .object([
                                    "parent": .text(violation.parent), "columns": .array(violation.columns.map { .text($0) }),
                                    "rows": .integer(violation.rows.count),
                                ])
                            }),
                    ])
                }),
        ])
    }

    /// A line for each table, with remarks below it.
    static func lines(_ report: TrackingReport, _ style: Style) -> [String] {
        let lost = "another program had dropped Annals' tables: history begins anew, and the store is in no space"
        let width = report.tables.map { TextWidth.of(PrintableText.of($0.name)) }.max() ?? 0
        return (report.hadLostHistory ? [lost] : [])
            + report.tables.flatMap { table -> [String] in
                let name = PrintableText.of(table.name)
                let padded = name + String(repeating: " ", count: width - TextWidth.of(name))
                let lead = String(repeating: " ", count: width + 2)
                switch table.outcome {
                case .skipped(let reason): return ["\(padded)  \(style(.yellow, "skipped")): \(reason.message)"]
                case .alreadyTracked: return ["\(padded)  tracked already"] + remarks(table).map { lead + $0 }
                case .tracked:
                    let outcome = style(.green, report.isDryRun ? "would be tracked" : "tracked")
                    return ["\(padded)  \(outcome)"] + remarks(table).map { lead + $0 }
                }
            }
    }

    private static func remarks(_ table: TrackingReport.Table) -> [String] {
        var lines: [String] = []
        if table.hasProvisionalKeys { lines.append("its integer keys are provisional until a space has ordered them") }
        if table.rowsWithNullKey.count > 0 {
            lines.append("\(Count.of(table.rowsWithNullKey.count, "row")) whose key holds NULL will not be sent to other machines")
        }
        for violation in table.foreignKeyViolations {
            lines.append(
                "\(Count.of(violation.rows.count, "row")) whose parent in \(PrintableText.of(violation.parent)) is missing already")
        }
        return lines
    }

    private static func words(_ outcome: TrackingReport.Outcome) -> (String, String?) {
        switch outcome {
        case .tracked: ("tracked", nil)
        case .alreadyTracked: ("alreadyTracked", nil)
        case .skipped(let reason): ("skipped", reason.message)
        }
    }
}
