import AnnalsCore
import AnnalsWire
import ArgumentParser
import RelayLog

struct RelaySpacesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "spaces",
        abstract: "List a relay's spaces; works while the relay runs.",
        discussion: """
            Example:
              annals relay spaces --data relay-data
            """)

    @OptionGroup var folder: RelayDataOption
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let spaces = try await database.describeSpaces()
        if output.json {
            for space in spaces { console.print(Self.json(space, try await quarantined(space, database))) }
        } else if spaces.isEmpty {
            console.print("no spaces")
        } else {
            var table = Table(["space", "head", "horizon", "snapshot at", "snapshot size", "quarantined"])
            for space in spaces {
                table.append([
                    .init(space.space), .init(space.head.rawValue), .init(space.horizon.rawValue),
                    .init(space.snapshot.map { "\($0.position)" } ?? "", .right),
                    .init(space.snapshot.map { ByteCount.text($0.bytes) } ?? "", .right),
                    .init(try await quarantined(space, database).joined(separator: ", ")),
                ])
            }
            console.print(table)
        }
    }

    /// Owners that may read but not write.
    private func quarantined(_ space: SpaceDescription, _ database: RelayDatabase) async throws -> [String] {
        guard let name = SpaceName(space.space) else { return [] }
        return try await database.quarantines(of: name).map { PrintableText.of(ReplicaOwner.shown($0.owner)) }
    }

    private static func json(_ space: SpaceDescription, _ quarantined: [String]) -> JSON {
        .object([
            "space": .text(space.space), "lineage": .text(space.lineage.description), "head": .integer(space.head.rawValue),
            "horizon": .integer(space.horizon.rawValue),
            "snapshot": space.snapshot.map { snapshot in
                .object([
                    "position": .integer(snapshot.position.rawValue), "bytes": .integer(snapshot.bytes), "digest": .text(snapshot.digest),
                ])
            } ?? .null, "quarantined": .array(quarantined.map { .text($0) }),
        ])
    }
}
