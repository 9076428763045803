import AnnalsCore
import AnnalsStore
import ArgumentParser

struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Write the store as it was into a new file.",
        discussion: """
            A TOKEN is what annals history prints, a transaction's number, an ISO 8601 date, start or latest. The new file is \
            an ordinary database with nothing of annals in it; it appears when it is whole.

            Examples:
              annals replay shop.db --to 12 --output yesterday.db
              annals replay shop.db --to 2024-05-01T08:00:00Z --output may.db
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: ArgumentHelp("The point in history.", valueName: "token"))
    var to: String
    @Option(name: .customLong("output"), help: ArgumentHelp("The file to make.", valueName: "file"), completion: .file())
    var file: String
    @Flag(help: "Replace the file if there is one.")
    var force = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let token = try await store.token(named: to)
        let (path, force) = (file, force)
        let outcome = try await Progress.during("replaying", on: console) { progress in
            try await store.replay(to: token, output: path, force: force) { progress.report(done: $0, of: $1) }
        }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "token": .text(outcome.token.description), "output": .text(file),
                    "transactionsUndone": .integer(outcome.transactions), "rowsUndone": .integer(outcome.rows),
                    "notes": .array(outcome.notes.map { .text($0) }),
                ]))
            return
        }
        console.print(
            "\(file) holds \(argument.store) as it was at \(outcome.token): \(Count.of(outcome.transactions, "transaction")) undone")
        for note in outcome.notes { console.note("annals: note: \(PrintableText.of(note))") }
    }
}
