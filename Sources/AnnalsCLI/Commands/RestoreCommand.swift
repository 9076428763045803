import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsSQLite
import AnnalsStore
import ArgumentParser

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Give tables the rows that they had at an earlier point, in place, with a new transaction.",
        discussion: """
            A POINT is a token that annals history prints, a transaction's number (the rows after it), an ISO 8601 date (in UTC without \
            an offset), start or latest. The command restores the named tables, or all tracked tables. Untracked tables stay as they \
            are. A column that was added since keeps its values. Constraints are enforced: if rows of a table that is not named would \
            lose their parent, the command names one and changes nothing (65). On a joined store the new transaction is synced like any \
            other. annals revert undoes a restore.

            --dry-run prints the rows before and after, at most 20; with --json all of them.

            Examples:
              annals restore shop.db --to 12 --dry-run
              annals restore shop.db --to 2024-05-01T08:00:00Z
              annals restore shop.db --to 12 customer invoice
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The tables to restore; all tracked tables if none is named.")
    var tables: [String] = []
    @Option(help: ArgumentHelp("The point in history.", valueName: "point"))
    var to: String
    @Flag(name: .customLong("dry-run"), help: "Only print what would be changed.")
    var dryRun = false
    @Option(help: "The author of the new transaction.")
    var author: String?
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let point = try await store.point(named: to)
        let head = JSON.object([
            "store": .text(argument.store), "token": .text(point.token.description),
            "moment": point.milliseconds.map { .text(Timestamp.text($0)) } ?? .null,
            "dryRun": .bool(dryRun),
        ])
        let rows = ChangedRowsPrint(console: console, json: output.json, head: head, isTrial: dryRun)
        let outcome = try await store.restore(to: point, tables: tables, author: author, isTrial: dryRun, visit: dryRun ? rows.visit : nil)
        if output.json {
            rows.finishJSON([
                "number": outcome.number.map { .integer($0) } ?? .null, "inserted": .integer(outcome.rows.inserted),
                "updated": .integer(outcome.rows.updated), "deleted": .integer(outcome.rows.deleted),
                "notes": .array(outcome.notes.map { .text($0) }),
            ])
            return
        }
        rows.finishText()
        console.print(summary(outcome, point))
        for note in outcome.notes { console.note("annals: note: \(PrintableText.of(note))") }
    }

    private func summary(_ outcome: RestoreOutcome, _ point: HistoryPoint) -> String {
        let rows = outcome.rows
        // A date without an offset is in UTC, so the date is printed as it was understood.
        let point = ISODate.milliseconds(to).map { "\(Timestamp.text($0)) (\(point))" } ?? "\(point)"
        guard rows.total > 0 else { return "the rows are those of \(point) already; nothing to restore" }
        let counts = "\(rows.inserted) inserted, \(rows.updated) updated, \(rows.deleted) deleted"
        if dryRun { return "the rows of \(point) can be restored: \(counts)" }
        return "the rows of \(point) are restored by \(outcome.number.map(String.init) ?? "none"): \(counts)"
    }
}
