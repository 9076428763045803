import AnnalsCore
import ArgumentParser
import RelayLog

struct RelayQuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Refuse the writes of an owner to a space; the owner can still read.",
        discussion: """
            An owner is a token, or a subject of an identity provider, as annals relay replicas shows it. While an owner is \
            quarantined, the relay refuses the pushes and the snapshots of its replicas: their sync ends with 77, applies the \
            changes of others, and keeps local work in the outbox. Other owners and other spaces are not affected. The owner's \
            replicas do not hold back purges or voids. The command works while the relay runs. The quarantine lasts until --lift; \
            the next sync after that sends the work.

            Examples:
              annals relay quarantine "token 3" --data relay-data --space shop
              annals relay quarantine "subject ada" --data relay-data --space shop
              annals relay quarantine 3 --data relay-data --space shop --lift
            """)

    @Argument(help: "The owner as annals relay replicas shows it: \"token 3\" or 3, \"subject ada\" or ada.")
    var owner: String
    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @Flag(help: "Accept the owner's pushes again.")
    var lift = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let database = try folder.openExisting()
        defer { try? database.close() }
        let owner = try await found(in: database)
        let called = PrintableText.of(ReplicaOwner.shown(owner))
        if lift {
            let isLifted = try await RelayReplicas.found(space) {
                try await database.liftQuarantine(of: owner, in: space, now: RelayReplicas.now, by: .thisUser)
            }
            guard isLifted else {
                throw AnnalsError(.fileNotFound, "\(called) is not quarantined in the space \(space)", hint: "See annals relay spaces")
            }
            show(called, since: nil, "\(space): \(called) may write again")
        } else {
            let quarantine = try await RelayReplicas.found(space) {
                try await database.quarantine(owner, of: space, now: RelayReplicas.now, by: .thisUser)
            }
            show(called, since: quarantine.since, "\(space): \(called) is quarantined: it may read but not write")
        }
    }

    private func found(in database: RelayDatabase) async throws -> String {
        let owners = try await RelayReplicas.found(space) { try await database.owners(called: owner, in: space) }
        guard let found = owners.first else {
            throw AnnalsError(.fileNotFound, "the space \(space) has no owner \(owner)", hint: "See annals relay replicas")
        }
        guard owners.count == 1 else {
            throw AnnalsError(
                .fileNotFound, "\(owner) matches \(owners.count) owners in the space \(space)",
                hint: "Give one in full: \(owners.map { "\"\(PrintableText.of($0.replacing("\n", with: " ")))\"" }.joined(separator: ", "))"
            )
        }
        return found
    }

    private func show(_ owner: String, since: Int64?, _ line: String) {
        guard output.json else { return output.console.print(line) }
        output.console.print(
            .object([
                "space": .text(space.description), "owner": .text(owner), "quarantined": .text(since.map { Timestamp.text($0) }),
            ]))
    }
}
