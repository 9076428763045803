import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct WatchCommand: AsyncParsableCommand, GoesOnUntilStopped {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print transactions as they commit, from any process, until stopped.",
        discussion: """
            Each commit of another program becomes one transaction as it happens; commits within a few milliseconds can become one. \
            With --after earlier transactions are printed first. Ctrl-C ends the command with status 0.

            --quiet only records, for a service (Config/annals-watch@.service): a store that nobody syncs then has each commit in \
            history. annals sync --watch does the same for a joined store.

            Examples:
              annals watch shop.db --values
              annals watch shop.db --after latest --json
              annals watch shop.db --quiet
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Print old and new values.")
    var values = false
    @Flag(help: "Print each write with its time and values, not only the net change of each row.")
    var steps = false
    @Flag(help: "Record each commit of other programs and print nothing.")
    var quiet = false
    @Option(help: ArgumentHelp("Begin after this point, instead of now.", valueName: "point"))
    var after: String?
    @OptionGroup var output: OutputOptions

    var goesOnUntilStopped: Bool { true }

    func validate() throws {
        if quiet, values || steps || output.json || after != nil {
            throw ValidationError("--quiet prints nothing: it cannot be combined with --values, --steps, --json or --after.")
        }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        if quiet { return try await record(store) }
        let print = try await HistoryPrint(
            console: console, json: output.json, values: values, steps: steps, replicas: store.replicaNames())
        do {
            var last = try await store.token(named: after ?? "latest")
            for try await _ in store.remoteChanges(after: last) {
                let pages = HistoryPages(store: store, request: HistoryRequest(after: last))
                last = try await pages.print(with: print).last ?? last
                console.sink.flush()
                if console.isClosed { return }
            }
        } catch is CancellationError {
            return
        }
    }

    /// Records until stopped. The sequence begins with what was committed before the first check.
    private func record(_ store: Store) async throws {
        do {
            for try await _ in store.remoteChanges(after: try await store.latestToken()) {}
        } catch is CancellationError {
            return
        }
    }
}
