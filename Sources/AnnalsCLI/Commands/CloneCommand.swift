import AnnalsCore
import AnnalsHTTP
import AnnalsStore
import AnnalsSync
import ArgumentParser

struct CloneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clone",
        abstract: "Create a new replica from a space.",
        discussion: """
            The new file has the space's rows and its whole schema: indexes, views, triggers, user_version. Tables that the space \
            does not track are empty, except full-text indexes of its rows. The file appears only when it is complete.

            An encrypted space needs its key file (--space-key-file); without it no file is created (78). If tables of the space use \
            functions or collations of a program, name its extension with --load-extension; without it no file is created (65). The \
            schema of the space can call the functions of the extension.

            Examples:
              annals clone http://127.0.0.1:8640 shop laptop.db
              annals clone https://relay.example.org shop laptop.db --credential-file token --ca-file company.pem
              annals clone https://relay.example.org shop laptop.db --space-key-file shop.key
            """)

    @Argument(help: "The relay's address, such as https://relay.example.org.")
    var url: String
    @Argument(help: "The space.")
    var space: SpaceName
    @Argument(help: "The file to create; it must not exist.", completion: .file())
    var store: String
    @Option(help: "The name of this replica in history and at the relay. (default: host and file, such as laptop/shop.db)")
    var name: String?
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var spaceKey: SpaceKeyOptions
    @OptionGroup var extensions: ExtensionOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let name = name ?? HostName.replica(at: store)
        let keys = try spaceKey.keys()
        let trusted = try trust.trust(at: url)
        let transport = try HTTPRelay(
            address: url, space: space, identity: .init(name: spaceKey.name(name), credential: try credential.token()),
            client: try HTTPClient(.init(trust: trusted)))
        let clone = try await Progress.during("cloning", on: console) { progress in
            let joining = Joining(
                transport: transport, address: url, space: space, name: name, credentialFile: credential.absoluteFile,
                trust: trusted, spaceKeys: keys, spaceKeyFile: spaceKey.absoluteFile, configuration: extensions.configuration
            ) { stage, bytes in progress.report(stage.rawValue, done: bytes, .bytes) }
            return try await joining.clone(to: store)
        }
        if output.json {
            console.print(
                .object([
                    "store": .text(store), "space": .text(space.description), "relay": .text(url), "name": .text(name),
                    "position": .integer(clone.position.rawValue),
                    "emptyTables": .array(clone.emptyTables.map { .text($0) }),
                    "unusableSnapshots": .array(clone.unusableSnapshots.map { .integer($0.rawValue) }),
                ]))
        } else {
            console.print("\(store) is a replica of the space \(space), at position \(clone.position)")
            if !clone.unusableSnapshots.isEmpty {
                let positions = clone.unusableSnapshots.map { "\($0)" }.joined(separator: ", ")
                console.note(
                    "annals: note: the snapshot at position \(positions) cannot be used, so an older one and the log were used. "
                        + "Tell the relay's operator")
            }
            if !clone.emptyTables.isEmpty {
                let (count, names) = (clone.emptyTables.count, clone.emptyTables.joined(separator: ", "))
                console.note(
                    "annals: note: \(Count.of(count, "untracked table")) \(count == 1 ? "is" : "are") empty: \(PrintableText.of(names))"
                )
                for line in MigrationRecords.notes(clone.emptyTables) { console.note("annals: note: \(line)") }
            }
        }
    }
}
