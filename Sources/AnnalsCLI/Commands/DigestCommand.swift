import AnnalsCore
import AnnalsStore
import ArgumentParser

struct DigestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "digest",
        abstract: "Print a SHA-256 of the tracked rows; equal on equal replicas.",
        discussion: """
            Replicas at the same position with an empty outbox have the same digest, if they have the same tables and columns.

            Example:
              annals digest shop.db laptop.db
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "More SQLite files, one line for each.", completion: .file())
    var more: [String] = []
    @OptionGroup var output: OutputOptions

    func run() async throws {
        for path in [argument.store] + more { try await print(path, on: output.console) }
    }

    private func print(_ path: String, on console: Console) async throws {
        let store = try Stores.open(path, argument.configuration)
        let digest = try await Progress.during("reading rows", on: console) { _ in try await store.standingDigest() }
        if output.json {
            console.print(
                .object([
                    "store": .text(path), "digest": .text(digest.rows.description),
                    "position": digest.position.map { .integer($0.rawValue) } ?? .null, "outbox": .integer(digest.outbox),
                ]))
        } else {
            console.print("\(digest.rows)  \(path)")
        }
    }
}
