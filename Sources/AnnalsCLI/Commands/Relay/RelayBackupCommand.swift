import AnnalsCore
import ArgumentParser
import Foundation
import Relay
import RelayLog

struct RelayBackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy all data of a relay into a new folder; works while the relay runs.",
        discussion: """
            The folder has every space at one moment, with its log, snapshots, replicas and tokens. It appears only when it is \
            complete. To replace a lost relay, run annals relay restore. If root runs the command, the folder gets the owner of the \
            relay's folder.

            Examples:
              annals relay backup --data relay-data --output /backup/relay-2026-11-21
              annals relay backup --postgres postgres://annals@db.internal/annals --output relay-copy
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(name: .customLong("output"), help: ArgumentHelp("The folder to create.", valueName: "folder"), completion: .directory)
    var path: String
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let source = try folder.openExisting()
        defer { try? source.close() }
        let path = path
        let began = RelayReplicas.now
        try await RelayCopying.run("copying", output) { progress in
            try RelayCopy.makeFolder(path, from: source, progress: progress, begin: UnfinishedFolders.add)
        } line: {
            "\(path) contains \($0)"
        }
        do {
            let place = URL(fileURLWithPath: path).standardizedFileURL.path
            try await source.noteBackup(to: place, at: began, by: .thisUser)
        } catch {
            // The backup is good; only its age is not known to the relay.
            output.console.note("annals: note: the relay could not record the time of this backup: \(error)")
        }
    }
}

struct RelayCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Move a relay from a folder to PostgreSQL, or back.",
        discussion: """
            Copies every space with its log, snapshots, replicas and tokens, in one transaction. Stop the relay first, and then \
            serve the copy only: if both run, their logs diverge, and replicas of one refuse the other. annals relay serve refuses \
            the old folder from then on. A place is a folder or the \
            address of a PostgreSQL database. The target must not have a relay's data yet. A folder with a = in its name is written \
            as ./a=b.

            Examples:
              annals relay copy --from relay-data --to postgres://annals@db.internal/annals
              annals relay copy --from postgres://annals@db.internal/annals --to relay-data
            """)

    @Option(help: ArgumentHelp("The relay's folder or database.", valueName: "place"), completion: .directory)
    var from: String
    @Option(help: ArgumentHelp("The folder to create, or the database.", valueName: "place"))
    var to: String
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let source = try RelayDataOption.openExisting(Self.storage(from))
        defer { try? source.close() }
        // A relay that is still running would accept entries that the copy does not have.
        let lock = try source.lockForServing(copying: true)
        defer { withExtendedLifetime(lock) {} }
        let to = to
        try await RelayCopying.run("copying", output) { progress in
            switch Self.storage(to) {
            case .directory(let path): return try RelayCopy.makeFolder(path, from: source, progress: progress, begin: UnfinishedFolders.add)
            case .postgres:
                let target = try Self.storage(to).open()
                defer { try? target.close() }
                return try RelayCopy(source: source, target: target).run(progress: progress)
            }
        } line: {
            "copied \($0)"
        }
        try source.markAsMoved()
    }

    /// PostgreSQL addresses are URLs or `name=value` pairs. A path that contains `=` must have a `/` before it, such as in `./`.
    static func storage(_ place: String) -> RelayConfiguration.Storage {
        let isURL = ["postgres://", "postgresql://"].contains { place.hasPrefix($0) }
        let isPairs = place.firstIndex(of: "=").map { !place[..<$0].contains("/") } ?? false
        return isURL || isPairs ? .postgres(place) : .directory(place)
    }
}

/// The shared part of backup, copy and restore: progress, cancellation on Ctrl-C, and the report of a copy.
enum RelayCopying {
    /// Runs `work` with the progress of its bytes, and ends it on Ctrl-C.
    static func watched<T: Sendable>(
        _ label: String, _ console: Console, _ work: @escaping @Sendable (@escaping @Sendable (Int64) throws -> Void) throws -> T
    ) async throws -> T {
        let isCancelled = AtomicFlag()
        return try await Progress.during(label, on: console) { progress in
            try await withTaskCancellationHandler {
                try work { bytes in
                    if isCancelled.isSet { throw CancellationError() }
                    progress.report(done: bytes, .bytes)
                }
            } onCancel: {
                isCancelled.set()
            }
        }
    }

    static func run(
        _ label: String, _ output: OutputOptions,
        _ copy: @escaping @Sendable (@escaping @Sendable (Int64) throws -> Void) throws -> RelayCopy.Report,
        line: (String) -> String
    ) async throws {
        let console = output.console
        // All snapshots are open at the same time.
        FileLimit.raise()
        let report = try await watched(label, console, copy)
        if report.belongsToRoot {
            console.note("annals: note: the copy belongs to root. Give it to the user that serves it, with chown -R")
        }
        if output.json {
            return console.print(
                .object([
                    "spaces": .integer(report.spaces), "positions": .integer(report.positions), "snapshots": .integer(report.snapshots),
                    "tokens": .integer(report.tokens), "bytes": .integer(report.bytes),
                ]))
        }
        let parts = [
            Count.of(Int(report.spaces), "space"), Count.of(Int(report.positions), "position"), Count.of(Int(report.snapshots), "snapshot"),
            Count.of(Int(report.tokens), "token"),
        ]
        console.print(line("\(parts.joined(separator: ", ")) (\(ByteCount.text(report.bytes)))"))
    }
}
