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

            If two replicas gave the same integer key to new rows, one of the rows got another number. Both rows exist, so this is no \
            conflict; --kind renumber lists such rows.

            Examples:
              annals conflicts shop.db
              annals conflicts shop.db --kind check --table stock
              annals conflicts shop.db --json | jq 'select(.table == "product")'
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Only conflicts that wait for a decision.")
    var unresolved = false
    @Option(help: "Only conflicts of this kind; repeatable.")
    var kind: [ConflictKind] = []
    @Option(help: "Only conflicts of this table; repeatable.")
    var table: [String] = []
    @OptionGroup var output: OutputOptions

    private static let pageSize = 500

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        var last: Int64 = 0
        var (printed, refused) = (0, 0)
        try await checkTables(store)
        while !console.isClosed {
            let page = try await store.conflicts(after: last, limit: Self.pageSize, onlyUnresolved: unresolved)
            guard let end = page.last?.conflict.id else { break }
            let meant = page.filter(isMeant)
            printed += meant.count
            for line in meant {
                if output.json {
                    console.print(ConflictReport.json(line))
                } else {
                    for text in ConflictReport.lines(line, console.style) { console.print(text) }
                }
            }
            last = end
            // A list without options counts the rows with another number.
            let isCounted = kind.isEmpty && table.isEmpty && !unresolved
            try await note(page.filter { isMeant($0) || (isCounted && $0.conflict.entry.kind == .renumber) }, in: store)
        }
        let (settled, renumbered) = try await store.conflictCounts()
        if printed == 0, !output.json {
            if unresolved, settled > 0 { refused = try await store.refusedConflicts() }
            console.print(unresolved && settled > 0 ? "none waits, \(settled) settled" : "no conflicts")
        }
        if renumbered > 0, kind.isEmpty, table.isEmpty {
            console.note("\(SyncReport.renumbered(renumbered)): annals conflicts \(argument.store) --kind renumber")
        }
        if refused > 0 {
            let kinds = ConflictKind.ofConstraints.map { "--kind \($0.rawValue)" }.joined(separator: " ")
            console.note(
                "\(Count.of(refused, "change")) of a replica \(refused == 1 ? "was" : "were") refused by a constraint: annals conflicts "
                    + "\(argument.store) \(kinds)")
        }
        let unsent = try await store.unsentConflicts()
        if unsent > 0 { console.note(SyncReport.unsent(unsent)) }
    }

    private func isMeant(_ line: NamedConflict) -> Bool {
        let entry = line.conflict.entry
        return (kind.isEmpty ? entry.kind != .renumber : kind.contains { $0.kind == entry.kind })
            && (table.isEmpty || table.contains { $0.isSameIdentifier(as: entry.table) })
    }

    /// A name that is mistyped must not look like a table without conflicts. A table that the space removed may still have some.
    private func checkTables(_ store: Store) async throws {
        guard !table.isEmpty else { return }
        let tracked = try await store.trackedTables()
        guard let unknown = table.first(where: { name in !tracked.contains { $0.isSameIdentifier(as: name) } }) else { return }
        throw AnnalsError(
            .notTracked, operation: "conflicts", "the table \(unknown) is not tracked",
            hint: "Tracked are \(tracked.joined(separator: ", "))")
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

/// The names of the kinds of conflicts.
enum ConflictKind: String, ExpressibleByArgument, CaseIterable {
    case update, updateOfDeleted, deleteOfUpdated, insert, renumber, unique, foreignKey, check

    /// A constraint decides these, and not a policy.
    static let ofConstraints: [Self] = [.unique, .foreignKey, .check]

    var kind: JournalEntry.Kind {
        switch self {
        case .update: .update
        case .updateOfDeleted: .updateOfDeleted
        case .deleteOfUpdated: .deleteOfUpdated
        case .insert: .insert
        case .renumber: .renumber
        case .unique: .unique
        case .foreignKey: .foreignKey
        case .check: .check
        }
    }
}
