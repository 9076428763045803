import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import Foundation

struct RevertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revert",
        abstract: "Undo a transaction, a part of it, or an author's work, with a new, inverse transaction.",
        discussion: """
            Later changes of other columns are kept. If later changes of the same rows and columns would be lost, the command names \
            them, and the transactions to revert first, and changes nothing (65). --skip-changed leaves these rows as they are and \
            undoes the rest; --force overwrites the later changes. A row that was deleted since is not restored. Constraints are always enforced. On a joined store the new transaction is synced like any other.

            --table, --key and --column undo a part. --key takes the row's key as annals blame does; for a compound key, give all \
            values, and write a negative number as --key=-5. With --column, only updates of these columns are undone, and rows that \
            the transaction inserted or deleted stay as they are. A part that the transaction did not change is refused (65).

            --after and --before with a number undo only what the transaction wrote after and before a date. They are for \
            external transactions, which can hold several commits: annals history --steps shows their times.

            --by undoes what all transactions of an author did between two points, together, also those from other replicas. --after \
            and --before exclude the point's own transaction, as in annals history.

            --dry-run prints the rows before and after, at most 20; with --json all of them. If the revert would be refused, it \
            prints what is in the way.

            Examples:
              annals revert shop.db 12 --dry-run
              annals revert shop.db 12
              annals revert shop.db 12 --after 2026-03-01T14:03:00Z
              annals revert shop.db 12 --table customer --key 7 --column city
              annals revert shop.db --by "till 3" --after 2024-05-01
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The transaction's number, as annals history prints it.")
    var number: Int64?
    @Option(help: "Undo the transactions of this author.")
    var by: String?
    @Option(
        help: ArgumentHelp(
            "With --by: only transactions after this point. With a number: only what was written after this date.", valueName: "point"))
    var after: String?
    @Option(
        help: ArgumentHelp(
            "With --by: only transactions before this one. With a number: only what was written before this date.", valueName: "point"))
    var before: String?
    @Option(help: "Undo only changes of this table.")
    var table: String?
    @Option(parsing: .upToNextOption, help: ArgumentHelp("With --table: undo only changes of the row with this key.", valueName: "key"))
    var key: [String] = []
    @Option(parsing: .upToNextOption, help: ArgumentHelp("With --table: undo only updates of this column.", valueName: "column"))
    var column: [String] = []
    @Flag(help: "Overwrite later changes.")
    var force = false
    @Flag(name: .customLong("skip-changed"), help: "Leave rows with later changes as they are, and undo the rest.")
    var skipChanged = false
    @Option(help: "The author of the new transaction.")
    var author: String?
    @Flag(name: .customLong("dry-run"), help: "Only print what would be changed.")
    var dryRun = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if number == nil, by == nil { throw ValidationError("name a transaction's number, or an author with --by.") }
        if number != nil, by != nil { throw ValidationError("name a transaction's number or --by, not both.") }
        if by == nil, let text = [after, before].compactMap(\.self).first(where: { ISODate.milliseconds($0) == nil }) {
            throw ValidationError(
                "\(text) is no date. With a number, --after and --before take an ISO 8601 date, such as 2026-03-01T08:00:00Z.")
        }
        if force, skipChanged { throw ValidationError("--force and --skip-changed cannot be combined.") }
        if table == nil, !key.isEmpty || !column.isEmpty { throw ValidationError("--key and --column need --table.") }
    }

    private var moments: RevertMoments? {
        func date(_ text: String?) -> Date? {
            text.flatMap(ISODate.milliseconds).map { Date(timeIntervalSince1970: Double($0) / 1_000) }
        }
        return after == nil && before == nil ? nil : RevertMoments(after: date(after), before: date(before))
    }

    private var later: LaterChanges { force ? .overwrite : skipChanged ? .keep : .refuse }

    private var part: RevertPart? {
        table.map { RevertPart(table: $0, key: key.isEmpty ? nil : key.map(SQLLiteral.key), columns: column) }
    }

    /// Members of the JSON document that are known before the revert.
    private var head: JSON {
        .object([
            "store": .text(argument.store), "reverted": number.map { .integer($0) } ?? .null, "by": .text(by), "dryRun": .bool(dryRun),
        ])
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let rows = ChangedRowsPrint(console: console, json: output.json, head: head, isTrial: dryRun)
        let outcome: RevertOutcome
        do {
            outcome = try await revert(store, rows)
        } catch let error as AnnalsError {
            if let refusal = error.underlying as? RevertRefusal {
                if output.json {
                    rows.finishJSON(RefusalPrint.members(refusal, error))
                } else if dryRun {
                    RefusalPrint.print(refusal, (try? await store.replicaNames()) ?? KnownReplicas(), on: console)
                }
            }
            throw error
        }
        if output.json {
            rows.finishJSON([
                "number": outcome.number.map { .integer($0) } ?? .null, "transactions": .integer(outcome.transactions),
                "inserted": .integer(outcome.rows.inserted), "updated": .integer(outcome.rows.updated),
                "deleted": .integer(outcome.rows.deleted), "forced": .integer(skipChanged ? 0 : outcome.forced),
                "skipped": .integer(skipChanged ? outcome.forced : 0), "leftOut": .integer(outcome.leftOut),
            ])
        } else {
            rows.finishText()
            console.print(summary(outcome))
            if outcome.leftOut > 0 {
                console.print("\(Count.of(outcome.leftOut, "inserted or deleted row")) left, because --column undoes only updates")
            }
        }
    }

    private func revert(_ store: Store, _ rows: ChangedRowsPrint) async throws -> RevertOutcome {
        let visit: (@Sendable (HistoryChange) throws -> Void)? = dryRun ? rows.visit : nil
        if let number {
            return try await store.revert(
                transaction: number, part: part, moments: moments, author: author, later: later, isTrial: dryRun, visit: visit)
        }
        let request = try await store.request(after: after, before: before)
        return try await store.revert(request, by: by ?? "", part: part, author: author, later: later, isTrial: dryRun, visit: visit)
    }

    private func summary(_ outcome: RevertOutcome) -> String {
        let rows = outcome.rows
        let whole = number.map { "transaction \($0)" } ?? PrintableText.of("the work of \(by ?? "")")
        let subject = part == nil && moments == nil ? whole : "a part of \(whole)"
        let changed = Count.of(outcome.forced, "row")
        guard rows.total > 0 else {
            let left = outcome.forced > 0 ? "\(changed) with later changes left" : "none of its values is left in the rows"
            return "\(subject): \(left); nothing to revert"
        }
        let of = number == nil ? " in \(Count.of(outcome.transactions, "transaction"))" : ""
        let counts = "\(rows.inserted) inserted, \(rows.updated) updated, \(rows.deleted) deleted"
        let forced =
            outcome.forced == 0
            ? ""
            : skipChanged
                ? "; \(changed) with later changes left"
                : "; later changes in \(changed) overwritten, except that deleted rows stay deleted"
        if dryRun { return "\(subject)\(of) can be reverted: \(counts)\(forced)" }
        return "\(subject)\(of) is reverted by \(outcome.number.map(String.init) ?? "none"): \(counts)\(forced)"
    }
}
