import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct ShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show one transaction with old and new values.",
        discussion: """
            --steps shows each write of the transaction with its time, also those that a later write took back.

            Examples:
              annals show shop.db 12
              annals show shop.db 12 --steps
              annals show shop.db latest
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The transaction: its number or token as history prints it, latest, or a date for the last one before it.")
    var token: String
    @Flag(help: "Show each write with its time, not only the net change of each row.")
    var steps = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let print = try await HistoryPrint(
            console: console, json: output.json, values: true, steps: steps, replicas: store.replicaNames())
        let latest = try await store.latestToken()
        let number =
            if let number = Int64(token) { number } else { token == "latest" ? latest.number : try await store.token(named: token).number }
        let rest = try await store.read { db in
            let reader = try HistoryReader(db)
            guard let transaction = try reader.transaction(number) else {
                throw reader.bounds.noTransaction(number, operation: "show")
            }
            var text = HistoryPrint.Buffer()
            try print.render(transaction, reader, HistoryRequest(), into: &text)
            return text
        }
        print.hand(rest)
    }
}
