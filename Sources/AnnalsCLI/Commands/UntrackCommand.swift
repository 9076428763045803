import AnnalsStore
import ArgumentParser

struct UntrackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "untrack",
        abstract: "End the history of tables and forget it.",
        discussion: """
            Without tables, of all: then no trace of annals is left in the file. Rows stay as they are. \
            After tables are named here, tables that are made later are not tracked by themselves.

            Example:
              annals untrack shop.db
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "Tables to forget; without any, all.")
    var tables: [String] = []
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let names = try await store.untrack(tables.isEmpty ? nil : tables)
        let left = try await store.status().tracked
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "untracked": .array(names.map { .text($0) }), "tracked": .array(left.map { .text($0) }),
                ]))
            return
        }
        for name in names { console.print("\(PrintableText.of(name)): no longer tracked") }
        if left.isEmpty { console.print("\(argument.store) holds nothing of annals any more") }
    }
}
