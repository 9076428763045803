import AnnalsCore
import AnnalsStore
import ArgumentParser

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "End a store's membership of its space; rows and history stay.",
        discussion: """
            What was not sent yet stays in the store's rows and history, and is not sent.

            Example:
              annals leave laptop.db
            """)

    @OptionGroup var argument: StoreArgument
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.replicaState() == nil ? nil : store.updateOutbox()
        try await store.leave()
        guard let status else { return }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "space": .text(status.space.description),
                    "position": .integer(status.position.rawValue), "unsent": .integer(status.outbox),
                ]))
        } else {
            let unsent = status.outbox == 0 ? "" : "; \(Count.of(status.outbox, "transaction")) had not been sent"
            console.print("\(argument.store) is no replica of the space \(status.space) any more\(unsent)")
        }
    }
}
