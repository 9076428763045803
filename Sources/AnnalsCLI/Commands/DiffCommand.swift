import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore
import ArgumentParser

struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show the rows that differ between two points of history; exit status 1 if any do.",
        discussion: """
            A POINT is a token that annals history prints, a transaction's number (the rows after it), an ISO 8601 date (in UTC without \
            an offset), start or latest. A date before history began is refused, because the rows of that time are not known. The \
            command shows the net difference from the first to the second point; the second may be the older one. A row that changed and \
            changed back is not shown. Rows are compared by key, in the current tables and columns.

            --table, --key and --column restrict the output, and the exit status with it. KEY is as for annals blame; for a compound \
            key give --key once for each value, in the key's order. With --column a row is shown if it was inserted, deleted or \
            changed in one of these columns, and only they are shown.

            --sql prints statements that turn the first state into the second. Run them with sqlite3 -bail. They are one \
            transaction, and turn foreign keys off for their connection.

            Examples:
              annals diff shop.db 12 latest
              annals diff shop.db 2024-05-01 2024-06-01 --json
              annals diff shop.db start latest --table customer --key 7
              annals diff shop.db 12 latest --table product --column price --column pieces
              annals diff shop.db latest 12 --sql | sqlite3 -bail shop.db
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: ArgumentHelp("The point from which to compare.", valueName: "point"))
    var from: String
    @Argument(help: ArgumentHelp("The point to which to compare.", valueName: "point"))
    var to: String
    @Option(help: ArgumentHelp("Only rows of this table. Can be repeated.", valueName: "table"))
    var table: [String] = []
    @Option(parsing: .unconditionalSingleValue, help: ArgumentHelp("Only the row with this key of the table.", valueName: "key"))
    var key: [String] = []
    @Option(help: ArgumentHelp("Only this column. Can be repeated.", valueName: "column"))
    var column: [String] = []
    @Flag(help: "Print SQL that turns the first state into the second.")
    var sql = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if sql, output.json { throw ValidationError("--sql and --json cannot be combined.") }
        if sql, !column.isEmpty { throw ValidationError("--sql and --column cannot be combined: SQL is for whole rows.") }
        if !key.isEmpty, table.count != 1 { throw ValidationError("--key needs one --table.") }
    }

    private var filter: DifferenceFilter {
        DifferenceFilter(tables: table, key: key.isEmpty ? nil : key.map(SQLLiteral.key), columns: column)
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let (from, to) = (try await store.point(named: from), try await store.point(named: to))
        let count = sql ? try await printSQL(store, from, to, console) : try await printRows(store, from, to, console)
        if !sql, !output.json { console.print(Self.summary(count, from, to)) }
        if count.total > 0 { throw CheckFailed() }
    }

    private func printSQL(_ store: Store, _ from: HistoryPoint, _ to: HistoryPoint, _ console: Console) async throws -> DifferenceCount {
        try await store.diffSQL(from: from, to: to, only: filter) { text in
            if console.isClosed { throw CheckFailed() }
            console.sink.write(text)
        }
    }

    private func printRows(_ store: Store, _ from: HistoryPoint, _ to: HistoryPoint, _ console: Console) async throws -> DifferenceCount {
        let print = HistoryPrint(console: console, json: output.json, values: true)
        return try await store.diff(from: from, to: to, only: filter) { change in
            if console.isClosed { throw CheckFailed() }
            console.print(print.json ? print.object(change).description : print.line(change))
        }
    }

    private static func summary(_ count: DifferenceCount, _ from: HistoryPoint, _ to: HistoryPoint) -> String {
        guard count.total > 0 else { return "no row differs between \(from) and \(to)" }
        return "from \(from) to \(to): \(count.inserted) inserted, \(count.updated) updated, \(count.deleted) deleted"
    }
}
