import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsStore
import ArgumentParser
import Foundation

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Change the schema, recorded as one transaction.",
        discussion: """
            Runs the SQL file as one transaction of origin migration, all or nothing. History continues through it, also if it drops \
            columns or rebuilds a table (create, copy, drop, rename), as long as the table still accepts all values that it accepted \
            before. If a table gets another key, another type or a stricter constraint, its history starts again, and older tokens \
            expire. Foreign keys are checked at the end. On a joined store, the next sync sends new tables, new columns \
            and dropped columns to the space, with the rows that the file changes. A new column that is NOT NULL needs a \
            constant default. If the file rebuilds the table to fill the column, the most frequent value is its default. \
            If the space has the new tables and columns already, the space's rows are used. Any other change of a \
            tracked table is refused (65), except a rename: names of tracked tables and columns are local to a store, \
            and other replicas keep theirs. --rename renames before the file runs. If another program has already \
            rebuilt a table under another name, --rename records that as a rename.

            The file may be what a migration tool prints, for example Django's sqlmigrate or Alembic's --sql. Its pairs of BEGIN and \
            COMMIT are left out.

            Examples:
              annals migrate shop.db --file priorities.sql
              annals migrate shop.db --file notes.sql --label "notes" --track
              annals migrate shop.db --rename note.title=heading --rename note=memo
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: "SQL statements; - for standard input.", completion: .file())
    var file: String?
    @Option(help: ArgumentHelp("Rename a column or a table; repeatable.", valueName: "[TABLE.]OLD=NEW"))
    var rename: [String] = []
    @Option(help: "The name of the migration in history (default: the file's name, or rename).")
    var label: String?
    @Flag(help: "Track the tables that the file creates.")
    var track = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let renames = try rename.map(Self.parse)
        guard file != nil || !renames.isEmpty else {
            throw AnnalsError(.usage, operation: "migrate", "there is nothing to do", hint: "Give --file or --rename")
        }
        let sql = try file.map(read) ?? ""
        let store = try argument.open()
        let name = label ?? file.map { $0 == "-" ? "migration" : URL(fileURLWithPath: $0).lastPathComponent } ?? "rename"
        let before = Set(try await store.status().tracked)
        let (statements, conflicts) = try await store.migrate(label: name, renames: renames, tracking: track ? .all : .none, sql: sql)
        let status = try await store.status()
        let renamed = renames.filter { $0.column == nil }.map(\.name)
        let new = status.tracked.filter { !before.contains($0) && !renamed.contains($0) }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "label": .text(name), "statements": .integer(statements),
                    "renames": .array(rename.map { .text($0) }),
                    "tracked": .array(new.map { .text($0) }), "token": .text(status.latestToken?.description),
                    "schemaVersion": status.replica == nil ? .null : .integer(status.schemaVersion), "conflicts": .integer(conflicts),
                ]))
        } else {
            let tables = new.isEmpty ? "" : "; tracked now: \(new.map(PrintableText.of).joined(separator: ", "))"
            let count = renames.isEmpty ? "" : "\(Count.of(renames.count, "rename"))\(file == nil ? "" : ", ")"
            let done = count + (file == nil ? "" : Count.of(statements, "statement"))
            let settled = conflicts == 0 ? "" : "; \(Count.of(conflicts, "conflict"))"
            console.print("\(argument.store): \(done) done as \"\(PrintableText.of(name))\"\(tables)\(settled)")
        }
        let waiting = status.untracked.filter { name in status.missingSchema.contains { $0.isSameIdentifier(as: name) } }
        if !waiting.isEmpty {
            let names = waiting.map(PrintableText.of).joined(separator: " ")
            console.note(
                "annals: note: the space has rows for \(names), and the store does not track it: annals track \(argument.store) \(names)")
        }
    }

    private static func parse(_ text: String) throws -> Rename {
        let sides = text.split(separator: "=", omittingEmptySubsequences: false)
        let place = sides[0].split(separator: ".", omittingEmptySubsequences: false)
        guard sides.count == 2, place.count <= 2, !sides[1].isEmpty, place.allSatisfy({ !$0.isEmpty }) else {
            throw AnnalsError(
                .usage, operation: "migrate", "--rename \(text) has the wrong form",
                hint: "Write TABLE.OLD=NEW for a column, or OLD=NEW for a table")
        }
        return place.count == 2
            ? .column(String(place[1]), of: String(place[0]), to: String(sides[1])) : .table(String(place[0]), to: String(sides[1]))
    }

    private func read(_ file: String) throws -> String {
        // A pipe is also read as a file.
        let handle = file == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: file)
        guard let handle, let data = try? handle.readToEnd() ?? Data() else {
            throw AnnalsError(.fileNotFound, operation: "migrate", "\(file) cannot be read", hint: "Check its name and permissions")
        }
        guard let sql = String(bytes: data, encoding: .utf8) else {
            throw AnnalsError(.usage, operation: "migrate", "\(file) is not UTF-8 text")
        }
        return sql
    }
}
