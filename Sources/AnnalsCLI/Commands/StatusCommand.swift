import AnnalsCore
import AnnalsStore
import ArgumentParser

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how a store stands: tables, history, outbox, space.",
        discussion: """
            No request is made: the head is the last one the relay told. What other programs wrote is sealed first.

            Example:
              annals status shop.db --json
            """)

    @OptionGroup var argument: StoreArgument
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.status()
        let violations = try await Progress.during("looking at foreign keys", on: console) { _ in
            try await store.foreignKeyViolations().map { StatusPrint.Violation(table: $0.table, parent: $0.parent, count: $0.count) }
        }
        if output.json {
            console.print(StatusPrint.json(argument.store, status, violations))
        } else {
            for line in StatusPrint.lines(argument.store, status, violations, console.style) { console.print(line) }
        }
    }
}
