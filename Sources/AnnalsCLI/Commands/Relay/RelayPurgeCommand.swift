import AnnalsCore
import ArgumentParser
import RelayLog

struct RelayPurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Drop the older part of a space's log, as far as a snapshot covers it.",
        discussion: """
            A serving relay does this by itself every hour. What is younger than --keep stays, and so does what a live replica \
            has not taken in for 90 days; a replica that was not seen for 30 days, or is retired, holds back nothing. The log \
            then begins at a snapshot, and the space is used again by what comes. Whoever was away for too long comes back \
            by the snapshot.

            Examples:
              annals relay purge --data relay-data --space shop --dry-run
              annals relay purge --data relay-data --space shop --keep 30d
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @Option(help: "Keep what is younger, such as 12h or 30d. (default: 7d; with --force nothing)")
    var keep: Lifetime?
    @Flag(name: .customLong("dry-run"), help: "Only say what would go.")
    var dryRun = false
    @Flag(help: "Also what live replicas have not taken in: they come back by the snapshot.")
    var force = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let (rules, dryRun) = (PurgeRules.asked(keep: keep?.milliseconds, isForced: force), dryRun)
        let outcome = try await RelayReplicas.found(space) {
            try await database.purge(space, rules, now: RelayReplicas.now, commits: !dryRun, by: .commandLine)
        }
        if output.json { return console.print(json(outcome)) }
        console.print(line(outcome))
        if let snapshot = outcome.unconfirmed {
            let (state, command) =
                snapshot.verdict == .refuted
                ? ("is refuted by a replica of another owner", "See the audit log for who disagrees")
                : ("waits until a replica of another owner confirms it", "That happens when such a replica syncs")
            console.note("annals: note: the snapshot at position \(snapshot.position) \(state). \(command); --force goes by it in any case")
        }
        for replica in outcome.holding {
            let name = replica.name.isEmpty ? replica.replica.description : "\(replica.name) (\(replica.replica))"
            console.note("annals: note: \(PrintableText.of(name)) has come to position \(replica.position) only")
        }
    }

    private func line(_ outcome: PurgeOutcome) -> String {
        guard let newest = outcome.newestSnapshot else { return "\(space): nothing can go, since there is no snapshot yet" }
        guard outcome.positions > 0 else {
            return "\(space): nothing \(dryRun ? "would go" : "went"); the log begins after position \(outcome.before), "
                + "the newest snapshot holds \(newest)"
        }
        let what = "\(Count.of(Int(outcome.positions), "position")) (\(ByteCount.text(outcome.bytes)))"
        return "\(space): \(what) \(dryRun ? "would go" : "went"); the log \(dryRun ? "would begin" : "begins") after position "
            + "\(outcome.horizon)"
    }

    private func json(_ outcome: PurgeOutcome) -> JSON {
        .object([
            "space": .text(space.description), "dryRun": .bool(dryRun), "before": .integer(outcome.before.rawValue),
            "horizon": .integer(outcome.horizon.rawValue), "positions": .integer(outcome.positions), "bytes": .integer(outcome.bytes),
            "snapshots": .integer(Int64(outcome.snapshots)), "head": .integer(outcome.head.rawValue),
            "unconfirmedSnapshot": outcome.unconfirmed.map { .integer($0.position.rawValue) } ?? .null,
            "newestSnapshot": outcome.newestSnapshot.map { .integer($0.rawValue) } ?? .null,
            "holding": .array(outcome.holding.map(RelayReplicas.json)),
        ])
    }
}
