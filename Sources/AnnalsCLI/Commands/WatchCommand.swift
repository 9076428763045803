import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct WatchCommand: AsyncParsableCommand, GoesOnUntilStopped {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print transactions as they commit, from any process, until stopped.",
        discussion: """
            Annals records what other programs committed since its last check as one transaction. With --after earlier transactions \
            are printed first. Ctrl-C ends the command with status 0.

            Examples:
              annals watch shop.db --values
              annals watch shop.db --after latest --json
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Print old and new values.")
    var values = false
    @Option(help: ArgumentHelp("Begin after this point, instead of now.", valueName: "token"))
    var after: String?
    @OptionGroup var output: OutputOptions

    var goesOnUntilStopped: Bool { true }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let print = HistoryPrint(console: console, json: output.json, values: values)
        do {
            var last = try await store.token(named: after ?? "latest")
            for try await _ in store.remoteChanges(after: last) {
                let pages = HistoryPages(store: store, request: HistoryRequest(after: last))
                last = try await pages.print(with: print).last ?? last
                console.sink.flush()
                if console.isClosed { return }
            }
        } catch let error as AnnalsError where error.code == .cancelled {
            return
        }
    }
}
