import AnnalsCore
import AnnalsWire
import ArgumentParser
import RelayLog

struct RelayDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a space permanently: its log, its snapshots and the records of its replicas.",
        discussion: """
            The stores keep their rows and their history, but cannot sync the space any more. Tokens for the space remain until they \
            are revoked. A space that is created later with the same name is another space, and stores of the old space refuse it. \
            The command works while the relay runs. Unless --yes is given, it asks for the space's name and reads it from standard \
            input. Run `annals relay backup` first to keep a copy.

            Examples:
              annals relay delete --data relay-data --space shop
              annals relay delete --data relay-data --space shop --yes
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @Flag(help: "Do not ask.")
    var yes = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let head = try await RelayReplicas.found(space) {
            guard let found = try await database.describeSpaces().first(where: { $0.space == space.description }) else {
                throw RelayLogError.spaceNotFound
            }
            return found.head
        }
        if !yes {
            console.note(
                "annals: this deletes the space \(space) with \(Count.of(Int(head.rawValue), "position")) permanently; type its name:")
            guard readLine(strippingNewline: true) == space.description else {
                throw AnnalsError(
                    .usage, "the typed name is not the name of the space; nothing was deleted", hint: "Type \(space), or give --yes")
            }
        }
        let deletion = try await RelayReplicas.found(space) {
            try await database.deleteSpace(space, now: RelayReplicas.now, by: .thisUser)
        }
        if output.json {
            return console.print(
                .object([
                    "space": .text(space.description), "head": .integer(deletion.head.rawValue), "logBytes": .integer(deletion.logBytes),
                    "snapshotBytes": .integer(deletion.snapshotBytes), "replicas": .integer(deletion.replicas),
                ]))
        }
        console.print(
            "\(space): deleted, with \(Count.of(Int(deletion.head.rawValue), "position")) and "
                + "\(ByteCount.text(deletion.logBytes + deletion.snapshotBytes))")
    }
}
