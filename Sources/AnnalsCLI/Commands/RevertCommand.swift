import AnnalsCore
import AnnalsRows
import AnnalsStore
import ArgumentParser

struct RevertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revert",
        abstract: "Do the inverse of a transaction, as a new one.",
        discussion: """
            Rows that were changed in other columns since keep those changes. Where later work on the same rows and columns would \
            be lost the command names them and changes nothing (65), unless --force is given; a row that is gone since stays so. \
            Constraints hold in any case. On a joined store the new transaction is synced like any other.

            Examples:
              annals revert shop.db 12 --dry-run
              annals revert shop.db 12
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The transaction's number, as annals history prints it.")
    var number: Int64
    @Flag(help: "Overwrite later work.")
    var force = false
    @Flag(name: .customLong("dry-run"), help: "Try it, and change nothing.")
    var dryRun = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let outcome = try await store.revert(transaction: number, force: force, isTrial: dryRun)
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "reverted": .integer(number), "number": outcome.number.map { .integer($0) } ?? .null,
                    "inserted": .integer(outcome.rows.inserted), "updated": .integer(outcome.rows.updated),
                    "deleted": .integer(outcome.rows.deleted), "forced": .integer(outcome.forced), "dryRun": .bool(dryRun),
                ]))
        } else {
            console.print(summary(outcome))
        }
    }

    private func summary(_ outcome: RevertOutcome) -> String {
        let rows = outcome.rows
        guard rows.total > 0 else { return "transaction \(number): its rows are as they were before; nothing to revert" }
        let counts = "\(rows.inserted) inserted, \(rows.updated) updated, \(rows.deleted) deleted"
        let forced = outcome.forced > 0 ? "; later work overwritten or left in \(Count.of(outcome.forced, "place"))" : ""
        if dryRun { return "transaction \(number) can be reverted: \(counts)\(forced)" }
        return "transaction \(number) is reverted by \(outcome.number.map(String.init) ?? "none"): \(counts)\(forced)"
    }
}
