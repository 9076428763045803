import AnnalsCore
import AnnalsStore
import ArgumentParser

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "End a store's membership of its space; rows and history stay.",
        discussion: """
            A store with work that was not sent yet does not leave (65), nor one that lacks tables or columns of the space, whose values \
            it keeps until it is migrated. With --force it does: what was not sent stays in its rows and history, and is not sent.

            Examples:
              annals leave laptop.db
              annals leave laptop.db --force
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Leave also where something is lost by it.")
    var force = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.replicaState() == nil ? nil : store.updateOutbox()
        try await store.leave(force: force)
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
