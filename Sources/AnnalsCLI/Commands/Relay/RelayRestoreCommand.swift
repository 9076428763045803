import AnnalsCore
import ArgumentParser
import Relay
import RelayLog

struct RelayRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Check a backup of a relay, and make a relay's folder of it.",
        discussion: """
            The command checks the database, the digests of every log and the snapshots, and says what the backup has. If a relay's \
            folder is replaced, it also says how many entries the backup lacks. Replicas that have seen these entries get an error \
            with their next sync, and bring them back with annals sync --follow-relay. Tokens and quarantines are as in the backup: \
            revoke again what was revoked since. The backup is not changed.

            Examples:
              annals relay restore /backup/relay-2026-11-21 --to relay-data
              annals relay restore /backup/relay-2026-11-21 --to relay-data --force
            """)

    @Argument(help: "The folder that annals relay backup made.", completion: .directory)
    var backup: String
    @Option(help: ArgumentHelp("The relay's folder to make.", valueName: "folder"), completion: .directory)
    var to: String
    @Flag(help: "Replace a relay's folder. The old one stays beside it under another name.")
    var force = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard case .postgres = RelayCopyCommand.storage(to) else { return }
        throw ValidationError("--to must be a folder. Then annals relay copy moves it to PostgreSQL.")
    }

    func run() async throws {
        let console = output.console
        let restore = RelayRestore(backup: backup, target: to, replaces: force)
        let report = try await RelayCopying.watched("restoring", console) { progress in
            try restore.run(now: RelayReplicas.now, by: .thisUser, progress: progress, begin: UnfinishedFolders.add)
        }
        for line in notes(report) { console.note("annals: note: \(PrintableText.of(line))") }
        if output.json { return console.print(json(report)) }
        let parts = [Count.of(report.spaces.count, "space"), Count.of(Int(report.tokens), "token")]
        console.print(PrintableText.of("\(to) contains \(parts.joined(separator: ", "))"))
        guard !report.spaces.isEmpty else { return }
        var table = Table(["space", "head", "horizon", "newest entry", "snapshots", "missing entries"])
        for space in report.spaces {
            table.append([
                .init(space.name.description), .init(space.head.rawValue), .init(space.horizon.rawValue),
                .init(space.newest.map { Timestamp.text($0) } ?? ""), .init(space.snapshots),
                .init(space.missing.map { "\($0)" } ?? "unknown", .right),
            ])
        }
        console.print(table)
    }

    private func notes(_ report: RelayRestore.Report) -> [String] {
        var lines = report.spaces.filter { !$0.lostSnapshots.isEmpty }.map { space in
            let positions = space.lostSnapshots.map { "\($0)" }.joined(separator: ", ")
            return "the space \(space.name) has no usable file of its snapshot at \(positions); a replica uploads another"
        }
        for space in report.missingSpaces { lines.append("the backup does not have the space \(space)") }
        if let replaced = report.replaced { lines.append("the old folder is now \(replaced)") }
        if report.belongsToRoot { lines.append("the folder belongs to root. Give it to the user that serves it, with chown -R") }
        return lines
    }

    private func json(_ report: RelayRestore.Report) -> JSON {
        .object([
            "data": .text(to), "replaced": .text(report.replaced), "tokens": .integer(report.tokens),
            "spaces": .array(
                report.spaces.map { space in
                    .object([
                        "space": .text(space.name.description), "lineage": .text(space.lineage.description),
                        "head": .integer(space.head.rawValue), "horizon": .integer(space.horizon.rawValue),
                        "newest": .text(space.newest.map { Timestamp.text($0) }), "snapshots": .integer(space.snapshots),
                        "lostSnapshots": .array(space.lostSnapshots.map { .integer($0.rawValue) }),
                        "missing": space.missing.map { .integer($0) } ?? .null,
                    ])
                }),
            "missingSpaces": .array(report.missingSpaces.map { .text($0.description) }),
        ])
    }
}
