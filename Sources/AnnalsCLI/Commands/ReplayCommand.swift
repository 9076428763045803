import AnnalsCore
import AnnalsHistory
import AnnalsHTTP
import AnnalsRows
import AnnalsStore
import AnnalsSync
import ArgumentParser

struct ReplayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Write an earlier state of a store or a space into a new file.",
        discussion: """
            A POINT is a token that annals history prints, a transaction's number (the rows after it), an ISO 8601 date (in UTC without \
            an offset), start or latest. A date before history began is refused, because the rows of that time are not known. A date \
            between two commits of other programs gives the rows between them, also if history has both commits in one transaction. The \
            new file is an ordinary database without Annals' tables. It appears only when it is complete.

            Examples:
              annals replay shop.db --to 12 --output yesterday.db
              annals replay shop.db --to 2024-05-01T08:00:00Z --output may.db
              annals replay --relay https://relay.example.org --space shop --to 1200 --output then.db

            A date or transaction before a table with rows was tracked is refused, because the rows of this table are not known there. \
            --without leaves the table empty.

            With --relay no store is needed. The space is rebuilt at a position that the relay still has: any from the horizon on, \
            which annals relay spaces shows.
            """)

    @Argument(help: "A SQLite file.", completion: .file())
    var store: String?
    @Option(help: ArgumentHelp("The point in history; with --relay a position.", valueName: "point"))
    var to: String
    @Option(help: "A relay's address, instead of a store.")
    var relay: String?
    @Option(help: "The space at the relay.")
    var space: SpaceName?
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var spaceKey: SpaceKeyOptions
    @OptionGroup var extensions: ExtensionOptions
    @Option(name: .customLong("output"), help: ArgumentHelp("The file to create.", valueName: "file"), completion: .file())
    var file: String
    @Option(help: ArgumentHelp("Leave this table empty; can be repeated.", valueName: "table"))
    var without: [String] = []
    @Flag(help: "Replace the file if it exists.")
    var force = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if store == nil, relay == nil { throw ValidationError("name a store, or a relay with --relay and --space.") }
        if store != nil, relay != nil { throw ValidationError("name a store or --relay, not both.") }
        if relay != nil, space == nil { throw ValidationError("--relay needs --space.") }
        if relay != nil, position == nil { throw ValidationError("with --relay, --to must be a position, such as 1200.") }
        if relay == nil, trust.isGiven { throw ValidationError("--ca-file and --pin need --relay.") }
        if relay == nil, spaceKey.file != nil { throw ValidationError("--space-key-file needs --relay.") }
        if relay != nil, !without.isEmpty { throw ValidationError("--without needs a store.") }
        if relay == nil, space != nil { throw ValidationError("--space needs --relay.") }
    }

    private var position: Position? { Int64(to).flatMap { $0 > 0 ? Position($0) : nil } }

    func run() async throws {
        if let relay, let space, let position { return try await replay(space, of: relay, to: position) }
        guard let store else { return }
        try await replay(Stores.open(store, extensions.configuration), store)
    }

    private func replay(_ store: Store, _ name: String) async throws {
        let console = output.console
        let point = try await store.point(named: to)
        let (path, force, without) = (file, force, without)
        let outcome = try await Progress.during("replaying", on: console) { progress in
            try await store.replay(to: point, output: path, force: force, leavingOut: without) { progress.report(done: $0, of: $1) }
        }
        if output.json {
            console.print(
                .object([
                    "store": .text(name), "token": .text(outcome.token.description),
                    "moment": point.milliseconds.map { .text(Timestamp.text($0)) } ?? .null,
                    "output": .text(file),
                    "transactionsUndone": .integer(outcome.transactions), "rowsUndone": .integer(outcome.rows),
                    "notes": .array(outcome.notes.map { .text($0) }),
                ]))
            return
        }
        console.print(
            "\(file) contains \(name) as it was at \(point): \(Count.of(outcome.transactions, "transaction")) undone")
        for note in outcome.notes { console.note("annals: note: \(PrintableText.of(note))") }
    }

    private func replay(_ space: SpaceName, of relay: String, to position: Position) async throws {
        let console = output.console
        let keys = try spaceKey.keys()
        let transport = try HTTPRelay(
            address: relay, space: space, identity: .init(credential: try credential.token()),
            client: try HTTPClient(.init(trust: try trust.trust(at: relay))))
        let (path, force) = (file, force)
        let replay = try await Progress.during("replaying", on: console) { progress in
            let joining = Joining(
                transport: transport, address: relay, space: space, name: HostName.current, spaceKeys: keys,
                configuration: extensions.configuration
            ) { stage, bytes in progress.report(stage.rawValue, done: bytes, .bytes) }
            return try await joining.replay(to: position, output: path, force: force)
        }
        if output.json {
            console.print(
                .object([
                    "space": .text(space.description), "relay": .text(relay), "position": .integer(replay.position.rawValue),
                    "snapshot": .integer(replay.snapshot.rawValue), "output": .text(file),
                    "emptyTables": .array(replay.emptyTables.map { .text($0) }),
                ]))
            return
        }
        console.print("\(file) contains the space \(space) as it was at position \(replay.position)")
        if replay.position < position {
            console.note("annals: note: position \(position) is inside a transaction, so the file has the state before it")
        }
        if !replay.emptyTables.isEmpty {
            console.note("annals: note: untracked tables are empty: \(PrintableText.of(replay.emptyTables.joined(separator: ", ")))")
        }
    }
}
