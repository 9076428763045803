import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import ArgumentParser

struct JoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Make a tracked store a replica of a space on a relay.",
        discussion: """
            If the space does not exist, it is created from the store's rows. If it exists, rows that are equal are recognised, so a \
            copy of another machine's file is joined without duplicates. If rows differ, join prints the counts per table and \
            changes nothing (exit status 65). Then choose with --existing what happens to them:

              same-key   rows with the same key are the same row: if values differ, the space's value is kept, and the other is in \
            the conflict journal
              separate   rows with the same integer key are different rows: this store's row gets the next number, and rows that \
            refer to it are updated
              theirs     the space's rows replace this store's rows, which remain in history

            If the store has left a space, same-key and separate merge its unsent work, and what it inserted or changed since, as \
            its own work: a new row gets a free number if the space has another row under its number.

            Tables and columns must be those of the space (65). With --schema additions either side may have more: values for tables \
            and columns that the store does not have are stored until it is migrated, and tables that only the store has are added \
            to the space.

            Tracked tables that use functions or collations which annals does not have are refused by name (65): load the extension that \
            has them with --load-extension, or untrack the tables. Untracked tables of this kind are left out of new replicas.

            A new space is refused (65) if columns look like references that the schema does not declare, as items.album_id, and nothing \
            is decided about them with annals reference. --references accept makes references of all of them, ignore of none.

            Rows that violate a foreign key are refused with counts per table (65), except with theirs. To finish an interrupted \
            join, run it again.

            With --space-key-file a new space is encrypted end to end: its relay sees who sends how much and when, but no row, name \
            or author. An existing space must be encrypted with a key of that file (78).

            Examples:
              annals join shop.db --relay http://127.0.0.1:8640 --space shop
              annals join till.db --relay http://127.0.0.1:8640 --space shop --existing separate
              annals join old.db --relay http://127.0.0.1:8640 --space shop --schema additions
              annals join shop.db --relay https://relay.example.org --space shop --space-key-file shop.key
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: "The relay's address, such as https://relay.example.org.")
    var relay: String
    @Option(help: "The space: 1 to 64 of A-Z a-z 0-9 . _ -")
    var space: SpaceName
    @Option(help: "The name of this replica in history and at the relay. (default: host and file, such as laptop/shop.db)")
    var name: String?
    @Flag(name: .customLong("dry-run"), help: "Only print what join would find: a new space, or the comparison of rows per table.")
    var dryRun = false
    @Option(help: "What happens to rows that differ: same-key, separate or theirs.")
    var existing: ExistingRows?
    @Option(help: "How the tables may differ from the space's: equal (not at all) or additions.")
    var schema: JoinedSchema = .equal
    @Option(help: "What suggested references become if the space is new: accept (references) or ignore.")
    var references: SuggestedReferences?
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var spaceKey: SpaceKeyOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let name = name ?? HostName.replica(at: argument.store)
        let keys = try spaceKey.keys()
        let trusted = try trust.trust(at: relay)
        let transport = try HTTPRelay(
            address: relay, space: space, identity: .init(name: spaceKey.name(name), credential: try credential.token()),
            client: try HTTPClient(.init(trust: trusted)))
        if dryRun { return try await foresee(store, transport, name, keys, console) }
        let outcome = try await Progress.during("joining", on: console) { progress in
            let joining = Joining(
                transport: transport, address: relay, space: space, name: name, credentialFile: credential.absoluteFile,
                trust: trusted, spaceKeys: keys, spaceKeyFile: spaceKey.absoluteFile, configuration: argument.configuration
            ) { stage, bytes in progress.report(stage.rawValue, done: bytes, .bytes) }
            return try await joining.join(store, existing: existing, schema: schema, references: references)
        }
        let missingSchema = try await store.status().missingSchema
        let unusable = try await store.unusableTables()
        for line in UnusablePrint.notes(unusable) { console.note("annals: note: \(line)") }
        if output.json {
            console.print(
                JoinPrint.json(outcome).adding([
                    "lacking": .array(missingSchema.map { .text($0) }),
                    "store": .text(argument.store), "space": .text(space.description), "relay": .text(relay), "name": .text(name),
                    "unusable": UnusablePrint.json(unusable),
                ]))
        } else {
            console.print("\(argument.store) is a replica of the space \(space), \(JoinPrint.words(outcome))")
            if !missingSchema.isEmpty {
                let names = missingSchema.map(PrintableText.of).joined(separator: ", ")
                console.print("it does not have \(names) of the space; Annals stores their values until it is migrated")
            }
        }
    }

    private func foresee(_ store: Store, _ transport: HTTPRelay, _ name: String, _ keys: SpaceKeyRing?, _ console: Console) async throws {
        let prospect = try await Progress.during("comparing", on: console) { progress in
            let joining = Joining(
                transport: transport, address: relay, space: space, name: name, spaceKeys: keys, configuration: argument.configuration
            ) { stage, bytes in progress.report(stage.rawValue, done: bytes, .bytes) }
            return try await joining.prospect(of: store, schema: schema, references: references)
        }
        let unusable = try await store.unusableTables()
        for line in UnusablePrint.notes(unusable) { console.note("annals: note: \(line)") }
        if output.json {
            console.print(JoinPrint.json(argument.store, space, prospect).adding(["unusable": UnusablePrint.json(unusable)]))
            return
        }
        switch prospect {
        case .new:
            console.print("the space \(space) does not exist: join would create it from the rows of \(argument.store)")
        case .existing(let differences):
            console.print(JoinPrint.table(differences))
            if !differences.missingSchema.isEmpty {
                console.print(
                    "the store does not have \(differences.missingSchema.map(PrintableText.of).joined(separator: ", ")) of the space")
            }
            if !differences.added.isEmpty {
                console.print("join would add \(differences.added.map(PrintableText.of).joined(separator: ", ")) to the space")
            }
            console.print(
                differences.areEqual
                    ? "the rows are equal: join would recognise them" : "the rows differ: join would refuse without --existing")
        }
    }
}
