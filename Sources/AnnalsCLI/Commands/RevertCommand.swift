import AnnalsCore
import AnnalsRows
import AnnalsStore
import ArgumentParser

struct RevertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revert",
        abstract: "Undo a transaction with a new, inverse transaction.",
        discussion: """
            Later changes of other columns are kept. If later changes of the same rows and columns would be lost, the command names \
            them and changes nothing (65), unless --force is given. A row that was deleted since is not restored. Constraints are \
            always enforced. On a joined store the new transaction is synced like any other.

            Examples:
              annals revert shop.db 12 --dry-run
              annals revert shop.db 12
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The transaction's number, as annals history prints it.")
    var number: Int64
    @Flag(help: "Overwrite later changes.")
    var force = false
    @Flag(name: .customLong("dry-run"), help: "Only print what would be changed.")
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
        guard rows.total > 0 else { return "transaction \(number): its rows already have the values from before; nothing to revert" }
        let counts = "\(rows.inserted) inserted, \(rows.updated) updated, \(rows.deleted) deleted"
        let forced = outcome.forced > 0 ? "; later changes overwritten or kept in \(Count.of(outcome.forced, "place"))" : ""
        if dryRun { return "transaction \(number) can be reverted: \(counts)\(forced)" }
        return "transaction \(number) is reverted by \(outcome.number.map(String.init) ?? "none"): \(counts)\(forced)"
    }
}
