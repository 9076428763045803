import AnnalsCore
import AnnalsStore
import ArgumentParser

struct ShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one transaction with old and new values.",
        discussion: """
            Example:
              annals show shop.db 12
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The transaction's number, as history prints it.")
    var number: Int64
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        _ = try await store.latestToken()
        let print = HistoryPrint(console: console, json: output.json, values: true)
        let number = number
        let rest = try await store.read { db in
            let reader = try HistoryReader(db)
            guard let transaction = try reader.transaction(number) else {
                throw AnnalsError(
                    .tokenUnknown, operation: "show", "history holds no transaction \(number)",
                    hint: "It reaches from \(reader.bounds.oldest) to \(reader.bounds.latest)")
            }
            var text = HistoryPrint.Buffer()
            try print.render(transaction, reader, HistoryRequest(), into: &text)
            return text
        }
        print.hand(rest)
    }
}
