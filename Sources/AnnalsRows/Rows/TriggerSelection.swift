import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDBSQLite

/// Decides which statements of which triggers run while entries are applied.
///
/// 1. Applying changes the rows of tracked tables, so the triggers of tracked tables are read. The triggers of every untracked
///    table or view that a selected statement writes are read too, and so on. All other triggers are ignored.
/// 2. A statement that writes a tracked table is left out.
/// 3. A statement that writes an untracked table is selected. If it contains a RAISE it cannot be split, and is refused.
/// 4. A statement that writes a view is selected if an INSTEAD OF trigger of the view has a selected statement for that
///    event. Then the view's other triggers for the event are created too, with an empty body, because SQLite does not
///    write to a view without them.
/// 5. A SELECT with RAISE(ABORT), RAISE(FAIL) or RAISE(ROLLBACK) is left out, because the row passed the check at its author.
/// 6. A SELECT with RAISE(IGNORE) is an early exit. It is selected together with the statements that it guards. In a BEFORE
///    trigger of a tracked table it is left out: it would drop the row, and the entry shows that it did not at the author.
/// 7. Any other SELECT is left out, unless it calls a function that is not built into SQLite. Nothing reads its result, so
///    its purpose is the side effect of the function (SpatiaLite maintains its index that way).
/// 8. A trigger without selected statements is not created.
struct TriggerSelection {
    struct Candidate {
        package let name: String
        /// Folded.
        package let table: String
        package let definition: TriggerDefinition?

        init(name: String, table: String, sql: String) {
            self.name = name
            self.table = table.foldedIdentifier
            self.definition = TriggerDefinition(sql: sql)
        }

        /// Whether rule 7 has to know if a function has side effects.
        var dependsOnFunctions: Bool {
            definition?.statements.contains { $0.effect == .reads && $0.raises.isEmpty && !$0.functions.isEmpty } ?? false
        }
    }

    /// The view and the event that an INSTEAD OF trigger implements.
    private struct ViewWrite: Hashable {
        let view: String
        let event: TriggerEvent
    }

    private let candidates: [String: [Candidate]]
    private let tracked: Set<String>
    private let views: Set<String>
    private let harmlessFunctions: Set<String>
    private var effectiveViewWrites: Set<ViewWrite> = []

    package private(set) var chosen: [UserTriggers.Temporary] = []
    package private(set) var reached: Set<String> = []

    /// - Parameters:
    ///   - tracked: Names of tables, folded.
    ///   - views: Names of all views, folded.
    ///   - harmlessFunctions: Functions without side effects, folded.
    init(candidates: [Candidate], tracked: Set<String>, views: Set<String>, harmlessFunctions: Set<String>) {
        self.candidates = Dictionary(grouping: candidates, by: \.table)
        self.tracked = tracked
        self.views = views
        self.harmlessFunctions = harmlessFunctions
    }

    /// - Throws: `AnnalsError` with code `schemaRefused`.
    package mutating func run() throws {
        findEffectiveViewWrites()
        for table in tracked.sorted() { try visit(table) }
    }

    /// Triggers of views may write to views, so this repeats until nothing is added.
    private mutating func findEffectiveViewWrites() {
        let triggers = views.flatMap { view in candidates[view, default: []].compactMap { $0.definition } }
        var count: Int
        repeat {
            count = effectiveViewWrites.count
            for trigger in triggers where !kept(of: trigger).isEmpty {
                effectiveViewWrites.insert(ViewWrite(view: trigger.table.foldedIdentifier, event: trigger.event))
            }
        } while effectiveViewWrites.count > count
    }

    /// Selects the triggers of a table, after the triggers that they fire.
    private mutating func visit(_ table: String) throws {
        guard reached.insert(table).inserted else { return }
        for candidate in candidates[table, default: []] {
            guard let trigger = candidate.definition else {
                throw refusal(of: candidate, "its SQL cannot be parsed", hint: "Drop the trigger, or rewrite it")
            }
            let statements = kept(of: trigger)
            try check(trigger, statements, candidate)
            for case .writes(let target, _) in statements.lazy.map(\.effect) { try visit(target.foldedIdentifier) }
            choose(candidate, trigger, statements)
        }
    }

    private mutating func choose(_ candidate: Candidate, _ trigger: TriggerDefinition, _ statements: [TriggerStatement]) {
        var texts = statements.map(\.text)
        if texts.isEmpty {
            guard effectiveViewWrites.contains(ViewWrite(view: candidate.table, event: trigger.event)) else { return }
            texts = ["SELECT NULL"]
        }
        let words = statements.reduce(into: trigger.conditionWords) { $0.formUnion($1.words) }
        chosen.append(UserTriggers.Temporary(name: candidate.name, definition: trigger, statements: texts, words: words))
    }

    private func kept(of trigger: TriggerDefinition) -> [TriggerStatement] {
        let kept = trigger.statements.filter { isKept($0, in: trigger) }
        let hasEffect = kept.contains { $0.raises.isEmpty || $0.effect != .reads }
        // On an untracked table, an early exit has an effect by itself: it rejects a row.
        return hasEffect || isUntrackedTable(trigger.table.foldedIdentifier) ? kept : []
    }

    private func isKept(_ statement: TriggerStatement, in trigger: TriggerDefinition) -> Bool {
        switch statement.effect {
        case .writes(let table, let event):
            let target = table.foldedIdentifier
            if views.contains(target) { return effectiveViewWrites.contains(ViewWrite(view: target, event: event)) }
            return !tracked.contains(target)
        case .reads:
            if statement.raises.contains(.ignore) { return trigger.timing != .before || isUntrackedTable(trigger.table.foldedIdentifier) }
            guard statement.raises.isEmpty else { return false }
            return statement.functions.contains { !harmlessFunctions.contains($0) && !isKeyword($0) }
        }
    }

    private func isUntrackedTable(_ name: String) -> Bool {
        !tracked.contains(name) && !views.contains(name)
    }

    private func isKeyword(_ word: String) -> Bool {
        sqlite3_keyword_check(word, Int32(word.utf8.count)) != 0
    }

    private func check(_ trigger: TriggerDefinition, _ kept: [TriggerStatement], _ candidate: Candidate) throws {
        guard !kept.isEmpty else { return }
        let writesAndRaises = kept.contains { $0.effect != .reads && !$0.raises.isEmpty }
        let isTwoKinds = kept.contains { $0.raises == [.ignore, .refuse] }
        guard writesAndRaises || isTwoKinds || !trigger.conditionRaises.isEmpty else { return }
        throw refusal(
            of: candidate, "a RAISE cannot be separated from the other statements",
            hint: "Put each RAISE into a separate SELECT, before the statements that maintain an untracked table")
    }

    private func refusal(of candidate: Candidate, _ problem: String, hint: String) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "apply",
            "the trigger \"\(candidate.name)\" on \"\(candidate.definition?.table ?? candidate.table)\" cannot be disabled while entries "
                + "are applied: \(problem)",
            hint: hint)
    }
}
