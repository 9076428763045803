import AnnalsCore
import AnnalsStore
import ArgumentParser
import Foundation

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Change the schema, recorded as one transaction.",
        discussion: """
            Runs the SQL file as one transaction of origin migration, all or nothing; history goes on through it. Foreign keys are \
            checked at its end. On a joined store new tables, and new columns that may be NULL or have a constant default, reach \
            the space with the next sync, with the rows that the file changes, unless the space has them already: then the rows are \
            the space's. Another change of a tracked table is refused (65).

            Examples:
              annals migrate shop.db --file priorities.sql
              annals migrate shop.db --file notes.sql --label "notes" --track
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: "SQL statements; - for standard input.", completion: .file())
    var file: String
    @Option(help: "What history calls it (default: the file's name).")
    var label: String?
    @Flag(help: "Track the tables that it makes.")
    var track = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let sql = try read()
        let store = try argument.open()
        let name = label ?? (file == "-" ? "migration" : URL(fileURLWithPath: file).lastPathComponent)
        let before = Set(try await store.status().tracked)
        let statements = try await store.migrate(label: name, tracking: track ? .all : .none, sql: sql)
        let status = try await store.status()
        let new = status.tracked.filter { !before.contains($0) }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "label": .text(name), "statements": .integer(statements),
                    "tracked": .array(new.map { .text($0) }), "token": .text(status.latestToken?.description),
                    "schemaVersion": status.replica == nil ? .null : .integer(status.schemaVersion),
                ]))
        } else {
            let tables = new.isEmpty ? "" : "; tracked now: \(new.map(PrintableText.of).joined(separator: ", "))"
            console.print("\(argument.store): \(Count.of(statements, "statement")) done as \"\(PrintableText.of(name))\"\(tables)")
        }
    }

    private func read() throws -> String {
        let data = file == "-" ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: file)
        guard let data else { throw AnnalsError(.fileNotFound, operation: "migrate", "\(file) cannot be read") }
        guard let sql = String(bytes: data, encoding: .utf8) else {
            throw AnnalsError(.usage, operation: "migrate", "\(file) is not UTF-8 text")
        }
        return sql
    }
}
