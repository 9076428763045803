import AnnalsCore
import ArgumentParser
import RelayLog

struct RelayPurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Drop the older part of a space's log, as far as a snapshot covers it.",
        discussion: """
            A running relay does this every hour. Entries that are younger than --keep are kept. Entries that a live replica of a writer has not \
            applied are kept for 90 days; a replica that was not seen for 30 days, or that is retired, does not count. The log then \
            starts at a snapshot, and new entries use the free space again. A replica that missed dropped entries resyncs from the \
            snapshot.

            Examples:
              annals relay purge --data relay-data --space shop --dry-run
              annals relay purge --data relay-data --space shop --keep 30d
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @Option(help: "Keep entries that are younger, such as 5m, 12h or 30d. (default: 7d; with --force none)")
    var keep: Lifetime?
    @Flag(name: .customLong("dry-run"), help: "Only print what would be dropped.")
    var dryRun = false
    @Flag(help: "Also drop what live replicas have not applied; they resync from the snapshot.")
    var force = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let (rules, dryRun) = (PurgeRules.asked(keep: keep?.milliseconds, isForced: force), dryRun)
        let outcome = try await RelayReplicas.found(space) {
            try await database.purge(space, rules, now: RelayReplicas.now, commits: !dryRun, by: .thisUser)
        }
        if output.json { return console.print(json(outcome)) }
        console.print(line(outcome))
        if let snapshot = outcome.unconfirmed {
            let (state, command) =
                snapshot.verdict == .refuted
                ? ("is refuted by a replica of another owner", "annals relay audit shows which replica")
                : ("waits until a replica of another owner confirms it", "The next sync of such a replica does that")
            console.note("annals: note: the snapshot at position \(snapshot.position) \(state). \(command); --force uses it in any case")
        }
        for replica in outcome.holding {
            let name = replica.name.isEmpty ? replica.replica.description : "\(replica.name) (\(replica.replica))"
            console.note("annals: note: \(PrintableText.of(name)) has applied the log only up to position \(replica.position)")
        }
    }

    private func line(_ outcome: PurgeOutcome) -> String {
        guard let newest = outcome.newestSnapshot else { return "\(space): nothing can be dropped, because there is no snapshot yet" }
        guard outcome.positions > 0 else {
            return "\(space): nothing \(dryRun ? "would be dropped" : "was dropped"); the log begins after position \(outcome.before), "
                + "the newest snapshot is at position \(newest)"
        }
        let what = "\(Count.of(Int(outcome.positions), "position")) (\(ByteCount.text(outcome.bytes)))"
        return "\(space): \(what) \(dryRun ? "would be dropped" : "dropped"); the log \(dryRun ? "would begin" : "begins") after position "
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
