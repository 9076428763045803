import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import ArgumentParser

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "End a store's membership of its space; rows and history stay.",
        discussion: """
            A store with work that was not sent yet does not leave (65), nor one that lacks tables or columns of the space, whose values \
            it keeps until it is migrated. With --force it does: what was not sent stays in its rows and history, and is not sent.

            The relay is told, so that it does not keep the log for this replica. Where it does not answer, the store leaves all the same.

            Examples:
              annals leave laptop.db
              annals leave laptop.db --force
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Leave also where something is lost by it.")
    var force = false
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.replicaState() == nil ? nil : store.updateOutbox()
        guard let status else { return try await store.leave(force: force) }
        let untold = try await leave(store)
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "space": .text(status.space.description),
                    "position": .integer(status.position.rawValue), "unsent": .integer(status.outbox),
                    "relayTold": .bool(untold == nil),
                ]))
        } else {
            let unsent = status.outbox == 0 ? "" : "; \(Count.of(status.outbox, "transaction")) had not been sent"
            console.print("\(argument.store) is no replica of the space \(status.space) any more\(unsent)")
        }
        guard let untold else { return }
        console.note(
            "the relay does not know that the replica has left: \(untold.message). It keeps the log for it for 30 days, unless an operator "
                + "runs annals relay retire \(status.replica) --space \(status.space)")
    }

    /// Leaves the space. Returns the error if the relay could not be informed; otherwise nil.
    private func leave(_ store: Store) async throws -> AnnalsError? {
        let transport: HTTPRelay
        do {
            var connections = RelayConnections()
            transport = try await connections.open(for: store, credential: credential, trust: trust)
        } catch let error as AnnalsError {
            try await store.leave(force: force)
            return error
        }
        return try await SyncAgent(store: store, transport: transport).leave(force: force)
    }
}
