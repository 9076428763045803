import ArgumentParser

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show tracking, sync, conflicts and history with two replicas and a relay in a temporary folder.",
        discussion: """
            Two replicas change the same rows offline, sync, and have equal rows afterwards. The demo shows the conflicts, the \
            history and an earlier state. Everything that it prints is read back from the files. The exit status is 1 if the two \
            sides differ.

            Examples:
              annals demo
              annals demo --store my.db
            """)

    @Option(help: "Use a copy of this SQLite file. The file itself is only read.", completion: .file())
    var store: String?
    @OptionGroup var output: PlainOutputOptions

    func run() async throws {
        try await DemoStory(console: output.console, source: store.map { .file($0) } ?? .sample).run()
    }
}
