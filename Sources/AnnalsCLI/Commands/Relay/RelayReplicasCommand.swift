import AnnalsCore
import ArgumentParser
import Foundation
import RelayLog

struct RelayReplicasCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replicas",
        abstract: "List a space's replicas with their positions and when they were last seen; works while the relay runs.",
        discussion: """
            A running relay records every second which replicas it has seen. A replica belongs to the token, or the subject of an \
            identity provider, that first pushed with its id; others cannot push with it. For a replica that never pushed, "seen \
            with" shows the owner of the requests that name it. The state shows whether that owner is quarantined.

            Example:
              annals relay replicas --data relay-data --space shop
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let records = try await RelayReplicas.records(of: space, in: database)
        if output.json {
            for record in records { console.print(RelayReplicas.json(record)) }
        } else if records.isEmpty {
            console.print("no replicas")
        } else {
            var table = Table(["replica", "name", "position", "last seen", "program", "belongs to", "state"])
            for record in records {
                table.append([
                    .init(record.replica.description), .init(record.name), .init(record.position.rawValue),
                    .init(Timestamp.text(record.lastSeen)), .init(record.program), .init(RelayReplicas.belonging(record)),
                    .init(RelayReplicas.state(record), colour: record.isRetired ? .dim : nil),
                ])
            }
            console.print(table)
        }
    }
}

struct RelayRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire",
        abstract: "Stop keeping the log for a replica.",
        discussion: """
            The relay keeps the log for replicas that have not applied it. Retire a replica that will not return. If it returns \
            nevertheless, it resyncs from the newest snapshot and keeps its unsent work, and the relay keeps the log for it again.

            Example:
              annals relay retire laptop --data relay-data --space shop
            """)

    @OptionGroup var which: ReplicaOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let record = try await which.with { database, replica in
            _ = try await database.retire(replica, of: which.space, now: RelayReplicas.now, by: .thisUser)
        }
        if output.json {
            output.console.print(RelayReplicas.json(record))
        } else {
            output.console.print("\(record.replica) is retired: the log is no longer kept for it")
        }
    }
}

struct RelayReleaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Allow a replica to use another token.",
        discussion: """
            A replica belongs to the token that first pushed with its id, and to the tokens that renew it, until they are revoked or \
            expire; or to a subject of an identity provider. After this command it belongs to the owner that pushes with its id \
            next.

            Example:
              annals relay release laptop --data relay-data --space shop
            """)

    @OptionGroup var which: ReplicaOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let record = try await which.with { database, replica in
            _ = try await database.release(replica, of: which.space, now: RelayReplicas.now, by: .thisUser)
        }
        if output.json {
            output.console.print(RelayReplicas.json(record))
        } else {
            output.console.print("\(record.replica) belongs to the owner that pushes with its id next")
        }
    }
}

/// Options that select one replica of a relay's space.
struct ReplicaOptions: ParsableArguments {
    @Argument(help: "The replica's name, its id, or the beginning of its id, as annals relay replicas shows them.")
    var replica: String
    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName

    /// Runs `body` with the replica. Returns what the relay knows of the replica afterwards.
    func with(_ body: (RelayDatabase, ReplicaID) async throws -> Void) async throws -> ReplicaRecord {
        let database = try folder.openExisting()
        defer { try? database.close() }
        let found = try await RelayReplicas.record(replica, of: space, in: database).replica
        try await RelayReplicas.found(space) { try await body(database, found) }
        return try await RelayReplicas.record(found.description, of: space, in: database)
    }
}

/// Finds and prints replicas.
enum RelayReplicas {
    static var now: Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)) }

    static func records(of space: SpaceName, in database: RelayDatabase) async throws -> [ReplicaRecord] {
        try await found(space) { try await database.replicas(of: space) }
    }

    /// The replica with a name, an id, or the beginning of an id.
    static func record(_ replica: String, of space: SpaceName, in database: RelayDatabase) async throws -> ReplicaRecord {
        let named = try await records(of: space, in: database).filter {
            $0.name == replica || $0.replica.description.hasPrefix(replica.lowercased())
        }
        guard let found = named.first, named.count == 1 else {
            throw AnnalsError(
                .fileNotFound,
                named.isEmpty ? "the space \(space) has no replica \(replica)" : "\(replica) matches \(named.count) replicas",
                hint: "See annals relay replicas")
        }
        return found
    }

    /// The token's number, or the subject without its provider.
    static func owner(_ record: ReplicaRecord) -> String {
        PrintableText.of(ReplicaOwner.shown(record.owner ?? ""))
    }

    /// Its owner; if it never pushed, the owner of the requests that name it.
    static func credential(_ record: ReplicaRecord) -> String {
        PrintableText.of(ReplicaOwner.shown(record.credential ?? ""))
    }

    static func belonging(_ record: ReplicaRecord) -> String {
        guard record.owner == nil, record.credential != nil else { return owner(record) }
        return "seen with \(credential(record))"
    }

    /// Runs `body` and turns the log's errors into errors of the command line.
    static func found<T>(_ space: SpaceName, _ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch RelayLogError.spaceNotFound {
            throw AnnalsError(.spaceNotFound, "there is no space \(space)", hint: "See annals relay spaces")
        } catch RelayLogError.storage(let reason) {
            throw AnnalsError(.cannotCreate, "the relay's storage cannot be used: \(reason)")
        } catch RelayLogError.overloaded {
            throw AnnalsError(.busy, "the relay's database is locked", hint: "Try again", isRetryable: true)
        }
    }

    static func state(_ record: ReplicaRecord) -> String {
        if let since = record.quarantined { return "quarantined \(Timestamp.text(since))" }
        return record.isRetired ? "retired \(Timestamp.text(record.retired))" : "live"
    }

    static func json(_ record: ReplicaRecord) -> JSON {
        .object([
            "replica": .text(record.replica.description), "name": .text(record.name), "position": .integer(record.position.rawValue),
            "counter": .integer(record.counter.rawValue), "lastSeen": .text(Timestamp.text(record.lastSeen)),
            "owner": .text(record.owner.map { _ in owner(record) }),
            "seenWith": .text(record.owner == nil && record.credential != nil ? credential(record) : nil), "program": .text(record.program),
            "retired": .text(record.isRetired ? Timestamp.text(record.retired) : nil),
            "quarantined": .text(record.quarantined.map { Timestamp.text($0) }),
        ])
    }
}
