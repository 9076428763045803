import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct PurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Drop old history.",
        discussion: """
            Transactions that a consumer has not read, or that are not pushed yet, are kept. --force drops them as well: \
            the consumer then gets an error and starts over, and unpushed work is still pushed. Without --before, --keep and --share \
            the store's own rule applies, which every sync follows as well: 30 days for a joined store, everything for any other \
            store, or what --remember set. With a duration or a date, old entries of the conflict journal that were shown are \
            dropped too. --remember names the rule that it replaces.

            Other programs can write meanwhile. The file does not get smaller, but SQLite uses its free space again; --vacuum \
            rewrites the file.

            Examples:
              annals purge shop.db --keep 90d --dry-run
              annals purge shop.db --before 2024-05-01 --vacuum
              annals purge shop.db --keep 7d --share 20% --remember
              annals purge shop.db --keep all --remember
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: ArgumentHelp("Drop transactions before this point; the named transaction is kept.", valueName: "point"))
    var before: String?
    @Option(
        help: ArgumentHelp(
            "Drop transactions that are older: 5m (minutes), 12h, 30d, 8w. With --remember also all or default.", valueName: "duration"))
    var keep: KeptHistory?
    @Option(help: ArgumentHelp("Drop only until history takes no more than this share of the file.", valueName: "percent"))
    var share: Share?
    @Flag(help: "Save --keep and --share as the store's own rule.")
    var remember = false
    @Flag(help: "Also drop what consumers have not read and what is not pushed yet.")
    var force = false
    @Flag(help: "Return free space to the system. The file is locked until this ends.")
    var vacuum = false
    @Flag(help: "Only print what would be dropped.")
    var dryRun = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard before == nil || (keep == nil && share == nil && !remember) else {
            throw ValidationError("--before cannot be combined with --keep, --share or --remember.")
        }
        if remember, keep == nil, share == nil { throw ValidationError("--remember needs --keep or --share.") }
        guard remember || ![.all, .usual].contains(keep) else { throw ValidationError("--keep all and --keep default need --remember.") }
        if share != nil, [.all, .usual].contains(keep) { throw ValidationError("--share needs --keep with a duration, or none.") }
        if dryRun, vacuum { throw ValidationError("--dry-run cannot be combined with --vacuum.") }
        if dryRun, [.all, .usual].contains(keep) { throw ValidationError("--dry-run needs --keep with a duration, or --share.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        var remembered: PurgePrint.Rule?
        if remember, !dryRun {
            let replaced = try await store.replaceRetention(by: rule)
            remembered = try await PurgePrint.Rule(now: store.retention(), replaced)
        }
        let result = try await Progress.during("purging", on: console) { [self] progress in
            try await purge(store) { progress.report(done: $0, of: $1) }
        }
        let given = vacuum ? try await Progress.during("rewriting the file", on: console) { _ in try await store.vacuum() } : nil
        if output.json {
            console.print(PurgePrint.json(argument.store, result, isDryRun: dryRun, vacuumed: given, remembered))
        } else {
            if let remembered { console.print(remembered.line) }
            for line in PurgePrint.lines(argument.store, result, isDryRun: dryRun, vacuumed: given) { console.print(line) }
            if !remember, before != nil || keep != nil || share != nil, let own = try await store.ownRetention() {
                console.print(PurgePrint.once(own))
            }
        }
    }

    /// nil for the usual rule.
    private var rule: HistoryRetention? {
        var rule = HistoryRetention.untilConsumed
        switch keep {
        case .usual: return nil
        case .all: return .all
        case .duration(let age): rule = rule.keepingAtLeast(.milliseconds(age.milliseconds))
        case nil: break
        }
        return share.map { rule.whenHistoryFraction(ofStoreExceeds: $0.fraction) } ?? rule
    }

    private func purge(_ store: Store, progress: @escaping @Sendable (Int64, Int64) -> Void) async throws -> PurgeResult {
        let mode: PurgeMode = force ? .force : .respectingConsumers
        if let before {
            try await store.refuseFuture(before)
            return try await store.deleteHistory(before: before, mode: mode, dryRun: dryRun, progress: progress)
        }
        let rule = (remember && !dryRun) || (keep == nil && share == nil) ? try await store.retention() : self.rule
        return try await store.purge(rule ?? .all, mode: mode, dryRun: dryRun, progress: progress)
    }
}
