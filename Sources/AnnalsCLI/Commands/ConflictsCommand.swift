import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "List settled conflicts with the values that were not kept.",
        discussion: """
            The journal is the same on every replica at the same position, except for entries that a replica has purged. For each conflict, "stored" is the value in the space, \
            "incoming" is the value of the replica that synced second, and "base" is the value from which that replica started. Each \
            side is named by its author, and by its replica if this store knows its name.

            Examples:
              annals conflicts shop.db
              annals conflicts shop.db --json | jq 'select(.table == "product")'
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Only conflicts that wait for a decision.")
    var unresolved = false
    @OptionGroup var output: OutputOptions

    private static let pageSize = 500

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        var last: Int64 = 0
        while !console.isClosed {
            let page = try await store.conflicts(after: last, limit: Self.pageSize, onlyUnresolved: unresolved)
            guard let end = page.last?.conflict.id else { break }
            for line in page {
                if output.json {
                    console.print(ConflictReport.json(line))
                } else {
                    for text in ConflictReport.lines(line, console.style) { console.print(text) }
                }
            }
            last = end
            try await note(page, in: store)
        }
        if last == 0, !output.json {
            let settled = unresolved ? try await store.conflictCounts().all : 0
            console.print(settled > 0 ? "none waits, \(settled) settled" : "no conflicts")
        }
        let unsent = try await store.unsentConflicts()
        if unsent > 0 { console.note(SyncReport.unsent(unsent)) }
    }

    /// Marks shown conflicts as seen, because only seen ones are purged. The list also works if the store cannot be written now.
    private func note(_ page: [NamedConflict], in store: Store) async throws {
        let unseen = page.map(\.conflict).filter { !$0.isSeen }.map(\.id)
        guard !unseen.isEmpty else { return }
        do {
            try await store.noteConflictsSeen(unseen)
        } catch let error as AnnalsError where [.readOnly, .busy].contains(error.code) {
            return
        }
    }
}
