import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsStore

/// Prints a store's status.
enum StatusPrint {
    /// Rows without their parent.
    struct Violation: Sendable {
        var table: String
        var parent: String
        var count: Int
    }

    private static func names(_ names: [String]) -> JSON { .array(names.map { .text($0) }) }

    static func json(_ store: String, _ status: StoreStatus, _ violations: [Violation], _ nullKeys: [RowsWithNullKey]) -> JSON {
        let replica = status.replica
        let lacking = status.missingSchema.filter { !status.waitingSchema.contains($0) }
        let json: JSON = .object([
            "store": .text(store), "tracked": .array(status.tracked.map { .text($0) }),
            "untracked": .array(status.untracked.map { .text($0) }), "untrackedReferences": untrackedReferences(status),
            "endedTables": .array(
                status.endedTables.map { .object(["table": .text($0.table), "reason": .text($0.reason.message)]) }),
            "rowsWithNullKey": self.nullKeys(nullKeys), "transactions": .integer(status.transactions),
            "oldestToken": .text(status.oldestToken?.description), "latestToken": .text(status.latestToken?.description),
            "incomplete": .array(
                status.incomplete.map { .object(["table": .text($0.table), "before": .integer($0.before)]) }),
            "unsentConflicts": .integer(status.unsentConflicts),
            "outbox": .integer(status.outbox), "relay": .text(replica?.relay), "space": .text(replica?.space.description),
            "replica": .text(replica?.replica.description), "name": .text(replica?.name),
            "position": replica.map { .integer($0.position.rawValue) } ?? .null,
            "head": replica.map { .integer($0.head.rawValue) } ?? .null, "conflicts": .integer(status.conflicts),
            "renumbered": .integer(status.renumbered), "refused": .integer(status.refusedConflicts),
            "sealedUnder": .text(replica?.sealedUnder.map { SpaceKey.name(of: $0) }),
            "unresolvedConflicts": .integer(status.unresolvedConflicts), "rowsInDoubt": .bool(status.areRowsUnverified),
            "joinUnfinished": .bool(status.isJoinUnfinished),
            "schemaVersion": replica == nil ? .null : .integer(status.schemaVersion),
            "lacking": names(lacking), "waiting": names(status.waitingSchema),
            "removedColumns": .array(status.removedColumns.map { .text($0) }),
            "removedTables": .array(status.removedTables.map { .text($0) }),
            "waitingForMigration": .bool(status.isWaitingForMigration), "syncProblem": syncProblem(status),
            "trackingBytes": .integer(status.trackingBytes),
            "historyShare": status.historyShare.map { .real(($0 * 10_000).rounded() / 10_000) } ?? .null,
            "retention": status.oldestToken == nil ? .null : .text(retention(status.retention)),
            "foreignKeyViolations": .array(
                violations.map { ["table": .text($0.table), "parent": .text($0.parent), "rows": .integer($0.count)] }.map(JSON.object)),
        ])
        return json.adding(["external": status.external.map(external) ?? .null])
    }

    private static func syncProblem(_ status: StoreStatus) -> JSON {
        guard let problem = status.syncProblem else { return .null }
        return .object([
            "time": .text(Timestamp.text(problem.time)), "code": .text(problem.code), "message": .text(problem.message),
            "hint": .text(problem.commandHint ?? problem.hint),
        ])
    }

    private static func untrackedReferences(_ status: StoreStatus) -> JSON {
        .array(
            status.untrackedReferences.map { reference in
                .object([
                    "table": .text(reference.table), "columns": .array(reference.columns.map { .text($0) }),
                    "parent": .text(reference.parent), "parentColumns": .array(reference.parentColumns.map { .text($0) }),
                ])
            })
    }

    /// The rows with NULL in their key, for `status --json` and `verify --json`.
    static func nullKeys(_ tables: [RowsWithNullKey]) -> JSON {
        .array(
            tables.map { rows in
                .object([
                    "table": .text(rows.table), "columns": .array(rows.columns.map { .text($0) }), "rows": .integer(rows.count),
                ])
            })
    }

    /// What is wrong with rows that have NULL in their key, and what to do.
    static func line(_ rows: RowsWithNullKey) -> String {
        let isOne = rows.count == 1
        let rule = "\(isOne ? "has" : "have") NULL in the key and \(isOne ? "is" : "are") not synced"
        let text = "\(Count.of(rows.count, "row")) of \(rows.table) \(rule). Set \(rows.columns.joined(separator: " or "))"
        return PrintableText.of("\(text) to sync \(isOne ? "it" : "them")")
    }

    static func lines(
        _ store: String, _ status: StoreStatus, _ violations: [Violation], _ nullKeys: [RowsWithNullKey], _ unusable: [UnusableTable],
        _ style: Style
    ) -> [String] {
        guard let oldest = status.oldestToken, let latest = status.latestToken else {
            return ["\(store) has no history. Run annals track to start it"]
        }
        var facts: [(String, String)] = [
            ("tracked", status.tracked.isEmpty ? "no table" : status.tracked.map(PrintableText.of).joined(separator: ", ")),
            ("history", "\(Count.of(status.transactions, "transaction")), from \(oldest) to \(latest)"),
            ("keeps", "\(retention(status.retention))\(share(status.historyShare))\(tracking(status))"),
        ]
        for table in status.incomplete {
            let why = "it was rebuilt, or written without capture, and its rows before that are not known"
            facts.append(("incomplete", "\(PrintableText.of(table.table)) before transaction \(table.before): \(why)"))
        }
        if let text = status.external.flatMap({ line($0, of: status.transactions) }) { facts.insert(("external", text), at: 2) }
        if let replica = status.replica {
            let behind = replica.head > replica.position ? ", the relay reported \(replica.head)" : ""
            facts.append(("space", "\(replica.space) on \(replica.relay), as \(PrintableText.of(replica.name))\(sealed(replica))"))
            facts.append(("position", "\(replica.position)\(behind)"))
            facts.append(("outbox", status.outbox == 0 ? "empty" : "\(Count.of(status.outbox, "transaction")) to be sent"))
            if status.schemaVersion > 1 || !status.missingSchema.isEmpty {
                let isHere = { name in status.untracked.contains { $0.isSameIdentifier(as: name) } }
                func names(_ isShown: (String) -> Bool) -> String {
                    status.missingSchema.filter(isShown).map(PrintableText.of).joined(separator: ", ")
                }
                let (untracked, waiting) = (names(isHere), names(status.waitingSchema.contains))
                let lacks = names { !isHere($0) && !status.waitingSchema.contains($0) }
                facts.append(
                    (
                        "schema",
                        "version \(status.schemaVersion)"
                            + (lacks.isEmpty ? "" : "; does not have \(lacks): their values are stored until it migrates")
                            + (waiting.isEmpty ? "" : "; has \(waiting) now: the next sync writes the values of the space")
                            + (untracked.isEmpty ? "" : "; does not track \(untracked): their values are stored until annals track")
                    ))
            }
            if !status.removedColumns.isEmpty {
                let names = status.removedColumns.map(PrintableText.of).joined(separator: ", ")
                facts.append(
                    ("removed", "the space no longer has \(names): this store exchanges their values only with stores that have them too"))
            }
            if !status.removedTables.isEmpty {
                let names = status.removedTables.map(PrintableText.of).joined(separator: ", ")
                facts.append(("removed", "the space no longer has \(names): the rows stay in this file, and are not synced any more"))
            }
            if let problem = status.syncProblem {
                let text = [problem.message, problem.commandHint ?? problem.hint].compactMap(\.self).joined(separator: ". ")
                facts.append(("last sync", style(.red, "failed, first at \(Timestamp.text(problem.time)): \(PrintableText.of(text))")))
            }
            if status.isWaitingForMigration {
                let text = "waiting for migration: a delete may affect rows of tables that this store does not have"
                facts.append(("sending", style(.red, text)))
            }
            let kinds = [
                status.unresolvedConflicts > 0 ? "\(status.unresolvedConflicts) unresolved" : nil,
                status.refusedConflicts > 0 ? "\(status.refusedConflicts) refused by a constraint" : nil,
            ].compactMap(\.self)
            let marks = kinds.isEmpty ? "" : " (\(kinds.joined(separator: ", ")))"
            let settled = status.unresolvedConflicts + status.refusedConflicts == 0 ? ", all settled" : marks
            facts.append(("conflicts", status.conflicts == 0 ? "none" : "\(status.conflicts)\(settled)"))
            if status.renumbered > 0 { facts.append(("", SyncReport.renumbered(status.renumbered))) }
            if status.unsentConflicts > 0 { facts.append(("", SyncReport.unsent(status.unsentConflicts))) }
        } else {
            facts.append(("space", "not joined"))
        }
        if status.isJoinUnfinished {
            facts.append(("unfinished", style(.red, "the join that creates the space was interrupted; run annals join again")))
        }
        if status.areRowsUnverified {
            let text = "a table was rebuilt, or an entry was voided: the next sync compares the rows with the space"
            facts.append(("unverified", style(.red, text)))
        }
        for reference in status.untrackedReferences {
            let text = "\(reference.table) is not tracked and refers to \(reference.parent): its rows are not synced"
            facts.append(("untracked", PrintableText.of(text)))
        }
        let others = status.untracked.filter { name in !status.untrackedReferences.contains { $0.table.isSameIdentifier(as: name) } }
        if !others.isEmpty {
            let names = others.map(PrintableText.of).joined(separator: ", ")
            facts.append(("untracked", "\(names): annals track starts a history\(status.replica == nil ? "" : " and syncs the rows")"))
        }
        for ended in status.endedTables {
            let text = "\(ended.table) was replaced by another program and is not tracked any more: \(ended.reason.message)"
            facts.append(("ended", style(.red, PrintableText.of(text))))
        }
        for rows in nullKeys { facts.append(("null keys", style(.red, line(rows)))) }
        for table in unusable where table.isTracked {
            facts.append(("unusable", style(.red, "\(PrintableText.of(table.table)): \(UnusablePrint.line(table))")))
        }
        for violation in violations {
            let text = "\(Count.of(violation.count, "row")) of \(violation.table) without a parent in \(violation.parent)"
            facts.append(("broken", style(.red, PrintableText.of(text))))
        }
        let width = facts.map(\.0.count).max() ?? 0
        return facts.map { style(.dim, $0.0) + String(repeating: " ", count: width - $0.0.count + 2) + $0.1 }
    }

    private static func external(_ history: ExternalHistory) -> JSON {
        .object([
            "transactions": .integer(history.transactions), "examined": .integer(history.examined),
            "longestSeconds": .real(history.longest / .seconds(1)),
        ])
    }

    /// How coarse history is because of other programs' commits, and what makes it finer; nil if none committed.
    static func line(_ history: ExternalHistory, of transactions: Int64) -> String? {
        guard history.transactions > 0 else { return nil }
        let all = history.examined < transactions ? "the newest \(history.examined)" : "\(history.examined)"
        let count = "\(history.transactions) of \(all) transactions"
        guard history.longest >= .seconds(1) else { return "\(count), less than 1 s of commits in each" }
        let hint = "annals watch or annals sync --watch records each commit"
        return "\(count), up to \(length(history.longest)) of commits in one; \(hint)"
    }

    /// A length of time in whole days, hours, minutes or seconds, rounded up.
    private static func length(_ duration: Duration) -> String {
        let seconds = Int64((duration / .seconds(1)).rounded(.up))
        for (unit, size) in [("d", 86_400), ("h", 3_600), ("min", 60)] as [(String, Int64)] where seconds >= size {
            return "\((seconds - 1) / size + 1) \(unit)"
        }
        return "\(seconds) s"
    }

    private static func sealed(_ replica: ReplicaState) -> String {
        replica.sealedUnder.map { ", encrypted with the key \(SpaceKey.name(of: $0))" } ?? ""
    }

    /// A retention rule as text.
    static func retention(_ rule: HistoryRetention) -> String {
        guard !rule.keepsAll else { return "all of it" }
        let share = rule.fraction.map { "up to \(Int(($0 * 100).rounded())) % of the file" }
        guard let age = rule.minimumAge.map({ Lifetime.text($0) }) else { return share ?? "what consumers have not read" }
        return share.map { "all of the last \(age), and older history \($0)" } ?? age
    }

    private static func tracking(_ status: StoreStatus) -> String {
        status.trackingBytes == 0 ? "" : "; tracking itself takes \(ByteCount.text(status.trackingBytes))"
    }

    private static func share(_ share: Double?) -> String {
        guard let share else { return "" }
        return share < 0.005
            ? "; history takes less than 1 % of the file" : "; history takes about \(Int((share * 100).rounded())) % of the file"
    }
}
