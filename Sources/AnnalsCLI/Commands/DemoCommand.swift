import ArgumentParser

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show the whole story on two replicas and a relay, in a temporary folder.",
        discussion: """
            Two machines work on the same rows while they are apart, sync, and end up equal; conflicts, history and an earlier \
            moment are shown. Everything that is printed is read back from the files. Ends with status 1 if the two sides \
            differ.

            Examples:
              annals demo
              annals demo --store my.db
            """)

    @Option(help: "Show it on a copy of this SQLite file, which itself is only read.", completion: .file())
    var store: String?
    @OptionGroup var output: PlainOutputOptions

    func run() async throws {
        try await DemoStory(console: output.console, source: store.map { .file($0) } ?? .sample).run()
    }
}
