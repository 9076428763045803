import AnnalsStore
import ArgumentParser

struct UntrackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "untrack",
        abstract: "Stop recording the history of tables, and delete it.",
        discussion: """
            Without table names, all tables are untracked, and everything that Annals added to the file is removed. Rows are not \
            changed. After tables were named here, tables that are created later are not tracked automatically.

            Example:
              annals untrack shop.db
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "Tables to untrack. (default: all)")
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
        if left.isEmpty { console.print("\(argument.store) contains nothing of Annals any more") }
    }
}
