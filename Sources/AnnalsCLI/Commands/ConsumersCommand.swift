import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct ConsumersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "consumers",
        abstract: "List the consumers of a store's history; register, move or remove a consumer.",
        discussion: """
            A consumer is a named reader of history; the store keeps its position. A purge keeps what a consumer has not read, until \
            the consumer has been idle for longer than its lease. A joined store has one more consumer, sync, for what is not pushed \
            yet.

            A script reads with annals history --consumer, and records with --acknowledge what it has processed.

            Examples:
              annals consumers shop.db
              annals consumers shop.db --register report --from start --lease 30d
              annals history shop.db --consumer report --json
              annals consumers shop.db --acknowledge report --to 17-0f8fad5bd9cb
              annals consumers shop.db --remove report
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: ArgumentHelp("Register a consumer, or give one another position and lease.", valueName: "name"))
    var register: String?
    @Option(help: ArgumentHelp("With --register: the last point that it has read already. (default: the latest)", valueName: "point"))
    var from: String?
    @Option(
        help: ArgumentHelp(
            "With --register: how long it may be idle before a purge no longer waits for it, such as 5m, 12h or 30d.", valueName: "duration"
        ))
    var lease: Lifetime?
    @Option(help: ArgumentHelp("Record that a consumer has read up to --to.", valueName: "name"))
    var acknowledge: String?
    @Option(help: ArgumentHelp("With --acknowledge: the last point that it has read.", valueName: "point"))
    var to: String?
    @Option(help: ArgumentHelp("Remove a consumer.", valueName: "name"))
    var remove: String?
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard [register, acknowledge, remove].compactMap(\.self).count <= 1 else {
            throw ValidationError("Give one of --register, --acknowledge and --remove at a time.")
        }
        if register == nil, from != nil || lease != nil { throw ValidationError("--from and --lease need --register.") }
        if (acknowledge == nil) != (to == nil) { throw ValidationError("Give --acknowledge and --to together.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        if let register {
            let consumer = HistoryConsumer(register, lease: lease.map { .milliseconds($0.milliseconds) })
            let start: HistoryToken? = if let from { try await store.token(named: from) } else { nil }
            try await store.register(consumer, from: start)
        }
        if let acknowledge, let to {
            let before = try await store.consumers().first { $0.consumer.name == acknowledge }
            try await store.acknowledge(store.token(named: to), by: HistoryConsumer(acknowledge))
            if before?.state == .expired {
                console.note(
                    "annals: note: \(PrintableText.of(acknowledge)) had expired: history that it had not read was purged. It must read the rows "
                        + "once to be complete")
            }
        }
        if let remove { try await store.unregister(HistoryConsumer(remove)) }
        let consumers = try await store.consumers()
        if output.json {
            for consumer in consumers { console.print(Self.json(consumer)) }
        } else if consumers.isEmpty {
            console.print("no consumers")
        } else {
            for line in Self.table(consumers).lines(console.style) { console.print(line) }
        }
    }

    private static func json(_ status: ConsumerStatus) -> JSON {
        .object([
            "name": .text(status.consumer.name), "kind": .text(status.kind == .push ? "push" : "registered"),
            "token": .text(status.token.description), "unread": .integer(status.unread),
            "lastSeen": .text(status.lastSeen.map { Timestamp.text($0) }),
            "leaseSeconds": status.consumer.lease.map { .integer($0.components.seconds) } ?? .null, "state": .text(status.state.rawValue),
        ])
    }

    private static func table(_ consumers: [ConsumerStatus]) -> Table {
        var table = Table(["consumer", "has read", "unread", "last seen", "lease", "state"])
        for status in consumers {
            table.append([
                Table.Cell(status.consumer.name), Table.Cell(status.token.description), Table.Cell(status.unread),
                Table.Cell(status.lastSeen.map { Timestamp.text($0) } ?? ""),
                Table.Cell(status.consumer.lease.map { Lifetime.text($0) } ?? (status.kind == .push ? "" : "forever")),
                Table.Cell(status.state.rawValue, colour: status.state == .live ? nil : .red),
            ])
        }
        return table
    }
}
