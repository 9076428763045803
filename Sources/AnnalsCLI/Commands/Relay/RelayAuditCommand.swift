import AnnalsCore
import ArgumentParser
import RelayLog

struct RelayAuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "List the actions of a relay's operators, newest first; works while the relay runs.",
        discussion: """
            Tokens created and revoked, replicas retired and released, spaces purged, entries voided: by whom (a token's number and \
            label, or `cli` and the system's user), when, and with which outcome. Voids by auto-void are listed as `automatic`; \
            hourly purges are not listed.

            Example:
              annals relay audit --data relay-data --space shop
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "Only actions on this space.")
    var space: SpaceName?
    @Option(help: "The maximum number of lines.")
    var limit = 100
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit must be 1 or more.") }
    }

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let lines = try await database.audit(of: space, limit: limit)
        if output.json {
            for line in lines { console.print(Self.json(line)) }
        } else if lines.isEmpty {
            console.print("no actions")
        } else {
            var table = Table(["time", "who", "what", "space", "to", "outcome"])
            for line in lines {
                table.append([
                    .init(Timestamp.text(line.time)), .init(line.actor), .init(line.action), .init(line.space?.description ?? ""),
                    .init(line.subject), .init(line.outcome),
                ])
            }
            console.print(table)
        }
    }

    private static func json(_ line: AuditLine) -> JSON {
        .object([
            "number": .integer(line.number), "time": .text(Timestamp.text(line.time)), "actor": .text(line.actor),
            "action": .text(line.action), "space": .text(line.space?.description), "subject": .text(line.subject),
            "outcome": .text(line.outcome),
        ])
    }
}
