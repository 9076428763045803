import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import ArgumentParser
import Logging

struct SyncCommand: AsyncParsableCommand, GoesOnUntilStopped {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Sync with the relay once, or continuously.",
        discussion: """
            If several stores are of one space, each has the changes of the others when the command ends. With --watch the command \
            runs until it is stopped: it syncs when any program commits to a store, and when the relay has new entries.

            Examples:
              annals sync shop.db laptop.db
              annals sync shop.db --watch
              annals sync --watch --config agent.yaml
              annals sync shop.db --follow-relay
            """)

    @Argument(help: "SQLite files that are joined to a space.", completion: .file())
    var stores: [String] = []
    @Option(help: "A YAML file that names stores, as Config/agent.yaml shows.", completion: .file())
    var config: String?
    @Flag(help: "Sync continuously until stopped.")
    var watch = false
    @Flag(name: .customLong("push-only"), help: "Only send changes.")
    var pushOnly = false
    @Flag(name: .customLong("pull-only"), help: "Only receive changes.")
    var pullOnly = false
    @Flag(
        name: .customLong("follow-relay"),
        help: "Accept a relay that was restored from a backup, and send it the lost entries again.")
    var followRelay = false
    @Option(
        help: "With --watch: a file to which the delays of sent and received transactions are written, in Prometheus' text format.",
        completion: .file())
    var metrics: String?
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var extensions: ExtensionOptions
    @OptionGroup var output: OutputOptions

    var goesOnUntilStopped: Bool { watch }

    func validate() throws {
        if stores.isEmpty, config == nil { throw ValidationError("name a store, or give --config.") }
        if pushOnly, pullOnly { throw ValidationError("--push-only and --pull-only cannot be combined.") }
        if metrics != nil, !watch { throw ValidationError("--metrics needs --watch.") }
        if watch, pushOnly || pullOnly { throw ValidationError("--watch cannot be combined with --push-only or --pull-only.") }
    }

    func run() async throws {
        let console = output.console
        let report = SyncReport(console: console, json: output.json)
        if watch {
            try await stayInTouch(opened { _, _ in }, report)
        } else {
            let direction: SyncDirection = pushOnly ? .pushOnly : pullOnly ? .pullOnly : .both
            try await exchange(direction, report)
        }
    }

    /// Stores that can be synced, and the errors of those that cannot be opened. One store that fails does not stop the others.
    private struct Opened: Sendable {
        var members: [SyncRound.Member] = []
        /// The tracked tables of each store before the sync, by path.
        var tracked: [String: [String]] = [:]
        var failures: [SyncRound.Outcome] = []
    }

    private func opened(_ progress: @escaping @Sendable (Joining.Stage, Int64) -> Void) async throws -> Opened {
        let named = stores.map { AgentFile.Entry(path: $0) }
        let entries = named + (try config.map { try AgentFile(readingFrom: $0).stores } ?? [])
        if entries.count > 1 { try OpenFiles.require(stores: entries.count) }
        var relays = RelayConnections()
        var opened = Opened()
        for entry in entries {
            do {
                let store = try Stores.open(entry.path, Stores.configured(extensions: extensions.files + entry.extensions))
                var logger = StandardErrorLog.logger("annals.sync")
                logger[metadataKey: "store"] = "\(entry.path)"
                let transport: any RelayTransport
                do {
                    transport = try await relays.open(
                        for: store, credential: credential, credentialFile: entry.credentialFile, trust: trust)
                } catch let error as AnnalsError {
                    await store.note(syncProblem: error)
                    throw error
                }
                let agent = SyncAgent(
                    store: store, transport: transport, restoredRelay: followRelay || entry.followsRelay ? .follow : .refuse,
                    logger: logger, progress: progress)
                opened.tracked[entry.path] = try? await store.trackedTables()
                opened.members.append(.init(path: entry.path, store: store, agent: agent))
            } catch let error as AnnalsError where entries.count > 1 {
                opened.failures.append(.init(path: entry.path, result: .failure(SyncRound.naming(entry.path, error))))
            }
        }
        return opened
    }

    private func exchange(_ direction: SyncDirection, _ report: SyncReport) async throws {
        let (outcomes, notes, stores) = try await Progress.during("syncing", on: report.console) { [self] progress in
            let opened = try await opened { stage, bytes in progress.report("snapshot: \(stage.rawValue)", done: bytes, .bytes) }
            let outcomes = try await SyncRound.run(opened.members, direction) { progress.report("syncing", done: 0) }
            let stores = Dictionary(opened.members.map { ($0.path, $0.store) }, uniquingKeysWith: { first, _ in first })
            return (opened.failures + outcomes, try await notSynced(opened.members) + newlyTracked(opened), stores)
        }
        for line in notes { report.console.note(line) }
        for outcome in outcomes {
            guard case .success(let summary) = outcome.result, let store = stores[outcome.path] else { continue }
            try await remember(in: store)
            await report.print(outcome.path, summary, of: store)
        }
        guard let status = SyncRound.status(outcomes) else { return }
        for outcome in outcomes {
            guard case .failure(let error) = outcome.result else { continue }
            report.print(outcome.path, refusal: error)
            show(error, report.console)
        }
        throw ExitCode(status.rawValue)
    }

    /// After a sync with the credential file of the options, a store uses this file for the next syncs, too.
    private func remember(in store: Store) async throws {
        guard let file = credential.absoluteFile, try await store.replicaState()?.credentialFile != file else { return }
        try await store.remember(credentialFile: file)
    }

    /// Tables that are tracked since this sync, because all tables of the store are tracked.
    private func newlyTracked(_ opened: Opened) async -> [String] {
        var lines: [String] = []
        for member in opened.members {
            guard let before = opened.tracked[member.path], let now = try? await member.store.trackedTables() else { continue }
            let new = now.filter { name in !before.contains { $0.isSameIdentifier(as: name) } }
            guard !new.isEmpty else { continue }
            lines.append(PrintableText.of("\(member.path): \(new.joined(separator: ", ")): tracked and synced from now on"))
        }
        return lines
    }

    /// Warnings about tables that are not synced although they refer to tables that are, about rows without a key, and about tables that
    /// this program cannot use.
    private func notSynced(_ members: [SyncRound.Member]) async throws -> [String] {
        var lines: [String] = []
        for member in members {
            // The sync itself reports the error of a store that cannot be read.
            for reference in (try? await member.store.untrackedReferences()) ?? [] {
                let text =
                    "\(member.path): \(reference.table) is not tracked and refers to \(reference.parent): its rows are not synced"
                lines.append(PrintableText.of("\(text). Run annals track to sync them"))
            }
            for rows in (try? await member.store.rowsWithNullKey()) ?? [] {
                lines.append("\(PrintableText.of(member.path)): \(StatusPrint.line(rows))")
            }
            for table in (try? await member.store.unusableTables()) ?? [] where table.isTracked {
                lines.append("\(PrintableText.of("\(member.path): \(table.table)")): \(UnusablePrint.line(table))")
            }
        }
        return lines
    }

    private func show(_ error: AnnalsError, _ console: Console) {
        console.note(ErrorReport(error, root: RootCommand.self).line ?? "")
    }

    private func stayInTouch(_ opened: Opened, _ report: SyncReport) async throws {
        for case .failure(let error) in opened.failures.map(\.result) { show(error, report.console) }
        for line in try await notSynced(opened.members) { report.console.note(line) }
        let metrics = try metrics.map { path in try AgentMetrics(path: path, stores: opened.members.map(\.path)) }
        let isAlone = opened.members.count + opened.failures.count == 1
        let failures = try await withThrowingTaskGroup(of: AnnalsError?.self) { group in
            for member in opened.members {
                group.addTask {
                    do {
                        try await member.agent.run { summary in
                            try? await remember(in: member.store)
                            do throws(AnnalsError) { try metrics?.note(member.path, summary) } catch { show(error, report.console) }
                            await report.print(member.path, summary, of: member.store)
                            report.console.sink.flush()
                        }
                        return nil
                    } catch let error as AnnalsError where !isAlone {
                        let named = SyncRound.naming(member.path, error)
                        show(named, report.console)
                        return named
                    }
                }
            }
            return try await group.reduce(into: []) { failures, failure in failure.map { failures.append($0) } }
        }
        // The errors were already printed, and stopping a watching sync is a success.
        if Task.isCancelled { return }
        let all = opened.failures + failures.map { .init(path: "", result: .failure($0)) }
        if let status = SyncRound.status(all) { throw ExitCode(status.rawValue) }
    }
}
