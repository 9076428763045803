import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import GRDB

/// The checks after everything has settled.
struct FinalChecks {
    let world: SimulatedSpace
    let folder: SimulationFolder

    func run() async throws {
        try checkTransactions()
        for (number, replica) in world.replicas.enumerated() {
            try checkRows(replica)
            guard let store = replica.store else { throw Violation("simulator", "\(replica.name) is not running") }
            if !isLeftBehind(replica) {
                try await checkJournal(replica, store)
                try await checkPolicies(replica, store)
            }
            try checkCopies(replica)
            // The unverified rows of a replica that is left behind cannot be compared with any log.
            let isChosen = number == Int(world.plan.seed % UInt64(world.replicas.count)) || replica.look.purged > 0
            if isChosen, !replica.look.isInDoubt { try await verify(replica, store) }
        }
    }

    /// Whether a replica has more of the log than the relay, or needs entries that are purged and cannot resync.
    private func isLeftBehind(_ replica: Replica) -> Bool { replica.lostLog != nil || world.isStranded(replica) }

    /// Law 7: every transaction is in the log once, unless a rebase left nothing of it, or its replica is left behind.
    private func checkTransactions() throws {
        let left = Set(world.replicas.filter(isLeftBehind).map(\.name))
        for intent in world.ledger.intents.values.sorted(by: { ($0.replica, $0.number) < ($1.replica, $1.number) }) {
            guard !left.contains(intent.replica), world.oracle.position(of: intent.id) == nil, !intent.differences.isEmpty, !intent.isGone
            else { continue }
            throw Violation(
                "law 7", "\(intent.replica)'s transaction \(intent.number) is not in the log: \(intent.differences.map(\.text))")
        }
    }

    /// Law 2: replicas at the same position have the same rows.
    private func checkRows(_ replica: Replica) throws {
        // Law 3 was checked at each step with the log that this replica has.
        if isLeftBehind(replica) { return }
        let expected = world.oracle.rows(at: world.oracle.head)
        guard replica.look.rows != expected else { return }
        throw Violation("law 2", "\(replica.name) ends otherwise: \(expected.differences(to: replica.look.rows).map(\.text))")
    }

    /// All journals are equal to the journal entries in the log (law 5).
    private func checkJournal(_ replica: Replica, _ store: Store) async throws {
        // The last decision in the log counts.
        let decisions = world.oracle.entries.flatMap { $0.resolutions.map { ($0.conflict, Conflict.Resolution($0.choice)) } }
        let resolutions = Dictionary(decisions) { $1 }
        var expected: [Line] = []
        for entry in world.oracle.entries {
            for (index, journal) in entry.journal.enumerated() {
                let name = ConflictID(replica: entry.replica, transaction: entry.info.id, index: index)
                expected.append(Line(position: entry.position, entry: journal, resolution: resolutions[name]))
            }
        }
        let found = try await store.conflicts().sorted { $0.position < $1.position }.map {
            Line(position: $0.position.rawValue, entry: $0.entry, resolution: $0.resolution)
        }
        // If journals were purged, old entries may be missing, and the others must be in their order.
        guard world.areJournalsPurged ? !found.isContained(inOrderIn: expected) : found != expected else { return }
        throw Violation("law 5", "\(replica.name)'s journal has \(found.count) lines, the log's entries have \(expected.count)")
    }

    private struct Line: Equatable {
        var position: Int64
        var entry: JournalEntry
        var resolution: Conflict.Resolution?
    }

    /// All replicas have the policies that the log sets, in the order of the log.
    private func checkPolicies(_ replica: Replica, _ store: Store) async throws {
        var book = PolicyBook()
        for entry in world.oracle.entries { book.set(entry.policies) }
        let found = Set(try await store.policies().filter { !$0.isOverride }.map(\.setting))
        if found != book.settings {
            throw Violation("policies", "\(replica.name) has \(found.count) of the space, the log sets \(book.settings.count)")
        }
    }

    /// The rows that the user's own triggers write for a tracked table.
    private func checkCopies(_ replica: Replica) throws {
        for copy in world.plan.schema.copies {
            guard let table = world.plan.schema.table(copy.table) else { continue }
            let match = table.key.map { "c.\(table.columns[$0].name) = t.\(table.columns[$0].name)" }.joined(separator: " AND ")
            let lost = try replica.read { db in
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM \(table.name) t
                        WHERE \(table.hasWholeKeySQL) AND NOT EXISTS (SELECT 1 FROM \(copy.name) c WHERE \(match) AND c.value IS t.\(copy.column))
                        """) ?? 0
            }
            if lost > 0 { throw Violation("triggers", "\(replica.name): \(lost) rows of \(table.name) are not in \(copy.name)") }
        }
    }

    /// The product's own verification with SQLite's checks (laws 3 and 4), in every second world, and replays of history (law 8).
    private func verify(_ replica: Replica, _ store: Store) async throws {
        var findings = world.plan.seed % 2 == 0 ? try await store.verify() : []
        // A program with foreign keys off may have removed the parent. `checkUntracked` finds what an exchange removed.
        findings.removeAll { finding in
            finding.code == .foreignKey && replica.untrackedRows.dangling.contains { !$0.value.isEmpty && finding.message.contains($0.key) }
        }
        guard findings.isEmpty else { throw Violation("verify", "\(replica.name): \(findings.map { "\($0.code): \($0.message)" })") }
        for (number, memory) in replica.memories.enumerated() {
            let path = "\(folder.path)/\(replica.name)-\(number).db"
            if memory.token.number < replica.look.purged {
                try await checkExpired(memory.token, replica, store, path)
                continue
            }
            do {
                _ = try await store.replay(to: memory.token, output: path)
            } catch let error as AnnalsError where error.code == .tokenExpired && world.plan.schema.change != nil {
                // A store that takes a table's new form from the log starts its history again.
                continue
            }
            let rows = try rows(inFile: path)
            guard rows != memory.rows else { continue }
            throw Violation("law 8", "\(replica.name) at \(memory.token): \(memory.rows.differences(to: rows).map(\.text))")
        }
    }

    /// Using a token that was purged must throw an error.
    private func checkExpired(_ token: HistoryToken, _ replica: Replica, _ store: Store, _ path: String) async throws {
        do {
            _ = try await store.replay(to: token, output: path)
        } catch let error as AnnalsError where error.code == .tokenExpired {
            return
        }
        throw Violation("law 8", "\(replica.name) goes back to \(token), though history up to \(replica.look.purged) was purged")
    }

    private func rows(inFile path: String) throws -> Rows {
        var options = GRDB.Configuration()
        options.prepareDatabase { db in ProgramFunctions.add(to: db) }
        let file = try DatabaseQueue(path: path, configuration: options)
        let rows = try file.unsafeRead { db in try Look.rows(db, world.plan.schema) }
        try file.close()
        return rows
    }
}

extension Array where Element: Equatable {
    /// Whether the other array has all these elements in this order, possibly with others between them.
    func isContained(inOrderIn other: [Element]) -> Bool {
        var rest = other[...]
        return allSatisfy { element in
            guard let place = rest.firstIndex(of: element) else { return false }
            rest = rest[(place + 1)...]
            return true
        }
    }
}
