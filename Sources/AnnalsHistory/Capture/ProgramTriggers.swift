import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The triggers of other programs in a file.
package struct ProgramTriggers {
    /// The names in their bodies, folded.
    private let names: Set<String>

    /// - Parameter name: a table's name, if only triggers that may contain it are needed.
    package init(_ db: Database, with name: String? = nil) throws {
        // A name with quotes in it is spelled differently in SQL, so it is not searched for as text. The search skips most triggers
        // of other tables before the tokenizer runs.
        let spelled = name.map { $0.contains { "\"'`]".contains($0) } ? "" : $0.foldedIdentifier } ?? ""
        let triggers = try String.fetchAll(
            db,
            sql: "SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND name NOT GLOB 'annals_*' AND instr(lower(sql), ?) > 0",
            arguments: [spelled])
        names = Set(
            triggers.flatMap { sql in
                SQLToken.all(in: sql).drop { !$0.isWord("BEGIN") }.compactMap { $0.name?.foldedIdentifier }
            })
    }

    /// Whether the body of one of them contains the table's name.
    func areWriting(to table: String) -> Bool { names.contains(table.foldedIdentifier) }
}
