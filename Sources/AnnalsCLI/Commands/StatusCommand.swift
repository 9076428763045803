import AnnalsCore
import AnnalsStore
import ArgumentParser

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the status of a store: tables, history, outbox, space.",
        discussion: """
            No request is made: the head is the last one that the relay reported. Changes of other programs are recorded first. \
            If the last sync failed, the command says why, until a sync succeeds.

            Example:
              annals status shop.db --json
            """)

    @OptionGroup var argument: StoreArgument
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.status()
        let violations = try await Progress.during("checking foreign keys", on: console) { _ in
            try await store.foreignKeyViolations().map { StatusPrint.Violation(table: $0.table, parent: $0.parent, count: $0.count) }
        }
        let nullKeys = try await store.rowsWithNullKey()
        let unusable = try await store.unusableTables()
        if output.json {
            console.print(StatusPrint.json(argument.store, status, violations, nullKeys).adding(["unusable": UnusablePrint.json(unusable)]))
        } else {
            for line in StatusPrint.lines(argument.store, status, violations, nullKeys, unusable, console.style) { console.print(line) }
        }
    }
}
