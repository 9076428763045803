import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import ArgumentParser

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "Remove a store from its space; its rows and history are kept.",
        discussion: """
            Leaving is refused (65) if the store has unsent work, or stores values for tables or columns of the space that it does \
            not have. With --force the store leaves anyway: unsent work is not sent, and the stored values are dropped. Annals \
            notes which rows are unsent. When the store joins a space again with --existing same-key or separate, they are \
            merged as its own work.

            The relay is informed, so that it does not keep the log for this replica. If it does not answer, the store leaves \
            anyway.

            Examples:
              annals leave laptop.db
              annals leave laptop.db --force
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Leave even if something is lost.")
    var force = false
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let status = try await store.replicaState() == nil ? nil : store.updateOutbox()
        guard let status else { return try await store.leave(force: force) }
        let failure = try await leave(store)
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "space": .text(status.space.description),
                    "position": .integer(status.position.rawValue), "unsent": .integer(status.outbox),
                    "relayInformed": .bool(failure == nil),
                ]))
        } else {
            // Without --force only a store whose space does not exist yet leaves with unsent work.
            let later = force ? " (annals join --existing same-key merges them into a space)" : ""
            let unsent = status.outbox == 0 ? "" : "; not sent: \(Count.of(status.outbox, "transaction"))\(later)"
            console.print("\(argument.store) is no longer a replica of the space \(status.space)\(unsent)")
        }
        guard let failure else { return }
        console.note(
            "the relay was not informed that the replica left: \(failure.message). It keeps the log for it for 30 days, unless an operator "
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
