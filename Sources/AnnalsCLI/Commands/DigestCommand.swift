import AnnalsCore
import AnnalsStore
import ArgumentParser

struct DigestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "digest",
        abstract: "Print a SHA-256 of the tracked rows; equal on equal replicas.",
        discussion: """
            Replicas at the same position with an empty outbox have the same digest.

            Example:
              annals digest shop.db
            """)

    @OptionGroup var argument: StoreArgument
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let digest = try await Progress.during("reading rows", on: console) { _ in try await store.standingDigest() }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "digest": .text(digest.rows.description),
                    "position": digest.position.map { .integer($0.rawValue) } ?? .null, "outbox": .integer(digest.outbox),
                ]))
        } else {
            console.print("\(digest.rows)  \(argument.store)")
        }
    }
}
