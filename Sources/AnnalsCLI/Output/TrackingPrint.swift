import AnnalsHistory
import AnnalsSchema
import AnnalsStore

/// Prints the result of tracking.
enum TrackingPrint {
    static func json(_ store: String, _ report: TrackingReport) -> JSON {
        .object([
            "store": .text(store), "dryRun": .bool(report.isDryRun), "hadLostHistory": .bool(report.hadLostHistory),
            "addedBytes": .integer(report.addedBytes),
            "tables": .array(
                report.tables.map { table in
                    let (outcome, reason) = words(table.outcome)
                    return .object([
                        "table": .text(table.name), "outcome": .text(outcome), "reason": .text(reason),
                        "provisionalKeys": .bool(table.hasProvisionalKeys), "rowsWithNullKey": .integer(table.rowsWithNullKey.count),
                        "recordedRows": .integer(table.recordedRows), "missing": UnusablePrint.json(table.missing),
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
        let lost = "another program dropped Annals' tables: history starts again, and the store is no longer in a space"
        let width = report.tables.map { TextWidth.of(PrintableText.of($0.name)) }.max() ?? 0
        return (report.hadLostHistory ? [lost] : [])
            + report.tables.flatMap { table -> [String] in
                let name = PrintableText.of(table.name)
                let padded = name + String(repeating: " ", count: width - TextWidth.of(name))
                let lead = String(repeating: " ", count: width + 2)
                switch table.outcome {
                case .skipped(let reason): return ["\(padded)  \(style(.yellow, "skipped")): \(UnusablePrint.words(reason))"]
                case .alreadyTracked: return ["\(padded)  already tracked"] + remarks(table).map { lead + $0 }
                case .tracked:
                    let outcome = style(.green, report.isDryRun ? "would be tracked" : "tracked")
                    return ["\(padded)  \(outcome)"] + remarks(table).map { lead + $0 }
                }
            }
    }

    private static func remarks(_ table: TrackingReport.Table) -> [String] {
        var lines: [String] = []
        if table.recordedRows > 0 {
            let verb = table.recordedRows == 1 ? "is" : "are"
            lines.append("its \(Count.of(table.recordedRows, "row")) from before tracking \(verb) recorded as inserted now")
        }
        if table.hasProvisionalKeys {
            let why = "a sync may change them until the relay has accepted their rows"
            lines.append("its integer keys are provisional if you sync this file: \(why)")
        }
        if table.rowsWithNullKey.count > 0 {
            lines.append("\(Count.of(table.rowsWithNullKey.count, "row")) with NULL in the key will not be synced")
        }
        if !table.missing.isEmpty {
            lines.append(UnusablePrint.line(UnusableTable(table: table.name, isTracked: true, missing: table.missing)))
        }
        for violation in table.foreignKeyViolations {
            lines.append(
                "\(Count.of(violation.rows.count, "row")) without a parent in \(PrintableText.of(violation.parent)), from before tracking")
        }
        return lines
    }

    private static func words(_ outcome: TrackingReport.Outcome) -> (String, String?) {
        switch outcome {
        case .tracked: ("tracked", nil)
        case .alreadyTracked: ("alreadyTracked", nil)
        case .skipped(let reason): ("skipped", UnusablePrint.words(reason))
        }
    }
}
