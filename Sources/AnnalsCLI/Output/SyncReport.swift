import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync

/// Prints one line for each synced store.
struct SyncReport: Sendable {
    var console: Console
    var json: Bool

    /// - Parameter store: the store at the path; a sentence follows for each of its first values that lost in a conflict, and the command
    ///   that lists the conflicts.
    func print(_ path: String, _ summary: SyncAgent.Summary, of store: Store) async {
        guard !json else { return console.print(Self.json(path, summary)) }
        console.print(Self.line(path, summary))
        if summary.outbox > 0, let unsent = try? await store.unsentConflicts(), unsent > 0 { console.print("  \(Self.unsent(unsent))") }
        guard summary.lost > 0 else { return }
        let lines = (try? await Self.lost(summary, of: store)) ?? []
        for line in lines { console.print("  \(line)") }
        let rest = summary.lost - lines.count
        console.print("  \(lines.isEmpty || rest <= 0 ? "" : "and \(rest) more: ")annals conflicts \(path) lists both sides")
    }

    private static let linesPerSync = 3

    /// About conflicts of transactions that the relay has not accepted.
    static func unsent(_ count: Int) -> String {
        "\(Count.of(count, "conflict")) of transactions that were not sent: the conflicts are listed after the relay has accepted these"
    }

    private static func lost(_ summary: SyncAgent.Summary, of store: Store) async throws -> [String] {
        guard let first = summary.firstConflict, let own = try await store.replicaState()?.replica else { return [] }
        var lines: [String] = []
        var after = first - 1
        while lines.count < linesPerSync, lines.count < summary.lost {
            let page = try await store.conflicts(after: after, limit: 100)
            guard let last = page.last else { break }
            after = last.conflict.id
            lines += page.filter { $0.conflict.entry.loser(incoming: $0.conflict.name.replica) == own }.map(ConflictReport.lost)
        }
        return Array(lines.prefix(linesPerSync))
    }

    /// Prints a JSON line for a store that met an entry which cannot be applied, or that the relay refused. Other errors are
    /// printed on standard error only.
    func print(_ store: String, refusal error: AnnalsError) {
        guard json, let refusal = JSON.refusal(error) else { return }
        console.print(.object(["store": .text(store), "error": refusal]))
    }

    static func json(_ store: String, _ summary: SyncAgent.Summary) -> JSON {
        .object([
            "store": .text(store), "space": .text(summary.space), "pushed": flow(summary.pushed), "pulled": flow(summary.pulled),
            "conflicts": .integer(summary.conflicts), "renumbered": .integer(summary.renumbered), "lost": .integer(summary.lost),
            "replacedDecisions": .integer(summary.replacedDecisions),
            "position": .integer(summary.position.rawValue),
            "head": .integer(summary.head.rawValue), "outbox": .integer(summary.outbox),
            "reconciled": .integer(summary.reconciled), "tookNewIdentity": .bool(summary.tookNewIdentity),
            "cameBack": summary.cameBack.map { .integer($0.rawValue) } ?? .null,
            "followed": summary.followed.map { .integer($0.rawValue) } ?? .null, "returned": .integer(summary.returned),
            "schemaVersion": .integer(summary.schemaVersion), "waitingForMigration": .bool(summary.isWaitingForMigration),
            "snapshot": summary.snapshot.map { .integer($0.rawValue) } ?? .null,
        ])
    }

    private static func flow(_ flow: SyncAgent.Summary.Flow) -> JSON {
        .object(["transactions": .integer(flow.transactions), "changes": .integer(flow.changes), "bytes": .integer(flow.bytes)])
    }

    static func line(_ store: String, _ summary: SyncAgent.Summary) -> String {
        var parts = [
            "pushed \(words(summary.pushed))", "pulled \(words(summary.pulled))", conflicts(summary),
            "position \(summary.position)",
        ]
        if summary.renumbered > 0 { parts.append(renumbered(summary.renumbered)) }
        if summary.replacedDecisions > 0 {
            let count = Count.of(summary.replacedDecisions, "decision")
            parts.append("\(count) about conflicts changed by another replica")
        }
        if summary.head > summary.position { parts.append("head \(summary.head)") }
        if summary.reconciled > 0 {
            parts.append("\(Count.of(summary.reconciled, "change")) found by a comparison of the rows with the space")
        }
        if let position = summary.cameBack {
            parts.append("the relay no longer has the missed log: resynced from the snapshot at position \(position), unsent work was kept")
        }
        if let position = summary.followed {
            parts.append(
                "the relay was restored from a backup: \(Count.of(summary.returned, "transaction")) after position \(position) sent again")
        }
        if let position = summary.snapshot { parts.append("sent the relay a snapshot at position \(position)") }
        if summary.tookNewIdentity { parts.append("the file is a copy or a restored backup: it is a new replica from now on") }
        if summary.isBehindSchema {
            parts.append("stores values of columns or tables that it does not have or track yet; annals status names them")
        }
        if summary.isWaitingForMigration { parts.append("waiting for migration") }
        if summary.outbox > 0 { parts.append("\(summary.outbox) waiting to be sent") }
        return "\(store): \(parts.joined(separator: ", "))"
    }

    /// About rows that got another key.
    static func renumbered(_ count: Int) -> String { "\(Count.of(count, "row")) got another number" }

    private static func conflicts(_ summary: SyncAgent.Summary) -> String {
        let count = Count.of(summary.conflicts, "conflict")
        return summary.lost == 0 ? count : "\(count) (\(Count.of(summary.lost, "value")) of this store replaced)"
    }

    private static func words(_ flow: SyncAgent.Summary.Flow) -> String {
        flow.transactions == 0 ? "nothing" : "\(Count.of(flow.transactions, "transaction")) (\(Count.of(flow.changes, "change")))"
    }
}
