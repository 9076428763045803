import AnnalsCore
import AnnalsHTTP
import AnnalsStore
import AnnalsSync
import ArgumentParser
import Logging

struct SyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Exchange with the relay once, or stay in touch.",
        discussion: """
            Of several stores of one space, each has what the others sent when the command ends. With --watch the command \
            goes on until it is stopped: it wakes when any program commits to a store, and when the relay has news.

            Examples:
              annals sync shop.db laptop.db
              annals sync shop.db --watch
            """)

    @Argument(help: "SQLite files that are joined to a space.", completion: .file())
    var stores: [String]
    @Flag(help: "Stay in touch until stopped.")
    var watch = false
    @Flag(name: .customLong("push-only"), help: "Send, and take nothing in.")
    var pushOnly = false
    @Flag(name: .customLong("pull-only"), help: "Take in, and send nothing.")
    var pullOnly = false
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if stores.isEmpty { throw ValidationError("no store is named.") }
        if pushOnly, pullOnly { throw ValidationError("--push-only and --pull-only exclude each other.") }
        if watch, pushOnly || pullOnly { throw ValidationError("--watch goes both ways: leave out --push-only and --pull-only.") }
    }

    func run() async throws {
        let console = output.console
        let report = SyncReport(console: console, json: output.json)
        if watch {
            try await stayInTouch(members { _, _ in }, report)
        } else {
            let direction: SyncDirection = pushOnly ? .pushOnly : pullOnly ? .pullOnly : .both
            try await exchange(direction, report)
        }
    }

    private func members(_ progress: @escaping @Sendable (Joining.Stage, Int64) -> Void) async throws -> [SyncRound.Member] {
        var relays = RelayConnections()
        var members: [SyncRound.Member] = []
        for path in stores {
            let store = try Stores.open(path)
            var logger = StandardErrorLog.logger("annals.sync")
            logger[metadataKey: "store"] = "\(path)"
            let transport = try await relays.open(for: store, credential: credential, trust: trust)
            let agent = SyncAgent(store: store, transport: transport, logger: logger, progress: progress)
            members.append(.init(path: path, store: store, agent: agent))
        }
        return members
    }

    private func exchange(_ direction: SyncDirection, _ report: SyncReport) async throws {
        let outcomes = try await Progress.during("syncing", on: report.console) { [self] progress in
            let members = try await members { stage, bytes in progress.report("snapshot: \(stage.rawValue)", done: bytes, .bytes) }
            return try await SyncRound.run(members, direction) { progress.report("syncing", done: 0) }
        }
        for outcome in outcomes {
            if case .success(let summary) = outcome.result { report.print(outcome.path, summary) }
        }
        guard let status = SyncRound.status(outcomes) else { return }
        for case .failure(let error) in outcomes.map(\.result) {
            report.console.note(ErrorReport(error, root: RootCommand.self).line ?? "")
        }
        throw ExitCode(status.rawValue)
    }

    private func stayInTouch(_ members: [SyncRound.Member], _ report: SyncReport) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for member in members {
                group.addTask {
                    try await member.agent.run { summary in
                        report.print(member.path, summary)
                        report.console.sink.flush()
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
