import AnnalsCore
import AnnalsHistory
import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import GRDB

struct TrackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "track",
        abstract: "Start history in an existing database.",
        discussion: """
            With --all, tables that cannot be tracked are skipped and named with the reason, and so are the internal tables of \
            migration tools and frameworks. Tables that are created later are also tracked when Annals next reads the file. If a \
            named table cannot be tracked, the command fails and tracks no table.

            Examples:
              annals track shop.db --all
              annals track shop.db customer invoice
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "Tables to track.")
    var tables: [String] = []
    @Flag(help: "Track every table that can be tracked.")
    var all = false
    @Flag(help: "Switch the file to WAL mode, in which readers and a writer do not wait for each other.")
    var wal = false
    @Flag(name: .customLong("dry-run"), help: "Only print what would be done.")
    var dryRun = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if all == !tables.isEmpty {
            let named = tables.prefix(3).map(PrintableText.of).joined(separator: ", ")
            throw ValidationError(
                all ? "Name tables or give --all, not both: \(named) was read as a table." : "Name the tables to track, or give --all.")
        }
    }

    func run() async throws {
        let console = output.console
        if wal, !dryRun { try await JournalMode.turnToWAL(argument.store) }
        let store = try argument.open()
        let selection: Tracking.Selection = all ? .all : .tables(tables)
        let report = try await Progress.during("tracking", on: console) { [self] _ in
            try await store.track(selection, options: .init(isDryRun: dryRun), check: check)
        }
        let suggestions = dryRun ? [] : try await store.suggestReferences().filter { $0.strength == .strong }
        if output.json {
            console.print(
                TrackingPrint.json(argument.store, report).adding(["references": .array(suggestions.map { ReferenceText.json($0) })]))
        } else {
            for line in TrackingPrint.lines(report, console.style) { console.print(line) }
            if report.addedBytes > 0 {
                let verb = dryRun ? "would add" : "adds"
                console.print("Tracking \(verb) \(ByteCount.text(report.addedBytes)) to the file, and history grows with each change.")
            }
            if report.tables.contains(where: Self.isNew), try await store.replicaState() != nil {
                console.print(
                    "The next sync \(dryRun ? "would send" : "sends") the rows of the newly tracked tables, because the store is in a space. "
                        + "Then they cannot be untracked any more.")
            }
            for suggestion in suggestions { console.print(PrintableText.of(ReferenceText.remark(suggestion))) }
        }
    }

    private static func isNew(_ table: TrackingReport.Table) -> Bool {
        if case .tracked = table.outcome { true } else { false }
    }

    /// Throws if a named table cannot be tracked, or if no table can. Then nothing is changed.
    private func check(_ report: TrackingReport) throws {
        let skipped = report.tables.compactMap { table -> (String, Refusal)? in
            if case .skipped(let reason) = table.outcome { (table.name, reason) } else { nil }
        }
        if !all, let (name, reason) = skipped.first {
            throw AnnalsError(
                .schemaRefused, operation: "track", "the table \(name) cannot be tracked: \(UnusablePrint.words(reason))",
                hint: "Nothing was changed")
        }
        guard report.tables.contains(where: \.isTracked) else {
            let reasons = skipped.prefix(3).map { "\($0): \(UnusablePrint.words($1))" }.joined(separator: "; ")
            throw AnnalsError(
                .schemaRefused, operation: "track", "no table of \(argument.store) can be tracked\(reasons.isEmpty ? "" : ": \(reasons)")",
                hint: "Nothing was changed")
        }
    }
}

enum JournalMode {
    static func turnToWAL(_ path: String) async throws {
        // Opening the file as a store first gives a plain error if something is wrong with it.
        let store = try Stores.open(path)
        try store.close()
        let connection = try DatabaseQueue(path: store.path, configuration: configuration)
        defer { try? connection.close() }
        let mode = try await connection.writeWithoutTransaction { db in try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL") }
        guard mode == "wal" else {
            throw AnnalsError(
                .busy, operation: "track", "\(path) cannot be switched to WAL mode", hint: "Close other programs that use it and try again",
                isRetryable: true)
        }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.busyMode = BusyTimeout(.seconds(5)).busyMode
        return configuration
    }
}
