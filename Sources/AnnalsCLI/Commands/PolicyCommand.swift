import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import ArgumentParser

struct PolicyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "policy",
        abstract: "Show or set how conflicts are settled.",
        usage: """
            annals policy STORE [show]
            annals policy STORE set (space | TABLE | TABLE.COLUMN) [--on KIND] POLICY
            annals policy STORE import FILE
            """,
        discussion: """
            Policies belong to the space: they reach every replica through the log, and apply to conflicts that are settled \
            afterwards. With --here a policy belongs to this replica, and applies to its own changes only. The narrower scope wins, \
            except that a table's row policy wins over the policies of its columns. Within one scope the replica's own policy wins. The policy "default" removes a setting.

            For updates (--on update): lastWriterWins, mergeByPropertyStoreTrump, mergeByPropertyObjectTrump, sum, min, max, union, \
            json, text, "sql: EXPRESSION" over :base, :stored, :incoming and the row; for whole rows overwrite, rollback, manual. \
            For deletes: lastWriterWins, deleteWins, updateWins, manual. sum is refused for a column with texts or blobs. For unique values: keepFirst, keepLast, mergeRows. For \
            integer keys: renumber, mergeRows. For whole transactions (yes, no): with yes, a transaction that loses a value of the \
            table is set aside completely. For new tables, new columns and removed columns of other replicas (space --on schema): \
            take, so that annals sync makes the change here, or wait, until a migration makes it.

            Examples:
              annals policy shop.db set stock.pieces sum
              annals policy shop.db set customer --on unique mergeRows
              annals policy shop.db set booking --on delete updateWins
              annals policy shop.db import policies.yaml
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: ArgumentHelp("show, set SCOPE POLICY, or import FILE.", valueName: "action"))
    var words: [String] = []
    @Option(help: "What the policy is for: update, delete, unique, key, whole or schema.")
    var on: PolicyAspect = .update
    @Flag(help: "Only for this replica's own changes.")
    var here = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        switch (words.first ?? "show", words.count) {
        case ("show", 0...1), ("set", 3), ("import", 2): break
        default: throw ValidationError("give show, set SCOPE POLICY, or import FILE.")
        }
    }

    func run() async throws {
        let console = output.console
        switch words.first ?? "show" {
        case "show":
            let store = try argument.open()
            print(try await store.policies(), console)
        case "set":
            let store = try argument.open()
            let setting = try await setting(words[1], words[2], store.status().tracked)
            try await store.setPolicies([setting], isOverride: here)
            if output.json {
                console.print(PolicyText.json(setting, isOverride: here))
            } else {
                console.print("\(PolicyText.scope(setting)): \(PolicyText.change(setting)); \(reach(of: 1))")
                for line in try await PolicyText.unused(store.policies()) { console.note(line) }
            }
        default:
            let settings = try PolicyFile.read(words[1])
            let store = try argument.open()
            try await store.setPolicies(settings, isOverride: here)
            if output.json {
                for setting in settings { console.print(PolicyText.json(setting, isOverride: here)) }
            } else {
                console.print("\(Count.of(settings.count, "setting")) imported; \(reach(of: settings.count))")
                for line in try await PolicyText.unused(store.policies()) { console.note(line) }
            }
        }
    }

    private func reach(of settings: Int) -> String {
        here
            ? "only this replica follows \(settings == 1 ? "it" : "them")"
            : "the next sync carries \(settings == 1 ? "it" : "them") to the other replicas"
    }

    private func setting(_ scope: String, _ policy: String, _ tables: [String]) throws -> PolicySetting {
        let name = policy == "default" ? "" : policy
        let aspect = on.aspect
        if scope == "space" { return PolicySetting(table: nil, aspect: aspect, policy: name) }
        if tables.contains(where: { $0.isSameIdentifier(as: scope) }) { return PolicySetting(table: scope, aspect: aspect, policy: name) }
        for place in scope.indices where scope[place] == "." {
            let (table, column) = (String(scope[..<place]), String(scope[scope.index(after: place)...]))
            guard tables.contains(where: { $0.isSameIdentifier(as: table) }) else { continue }
            guard on == .update else {
                throw AnnalsError(
                    .usage, operation: "policy", "--on \(on.rawValue) is for the space or a table, not for a column",
                    hint: "See annals policy --help")
            }
            return PolicySetting(table: table, column: column, aspect: aspect, policy: name)
        }
        // The error names the table.
        let table = scope.split(separator: ".", maxSplits: 1).first.map(String.init) ?? scope
        return PolicySetting(table: table, aspect: aspect, policy: name)
    }

    private func print(_ policies: [PolicyInForce], _ console: Console) {
        if output.json {
            for policy in policies { console.print(PolicyText.json(policy.setting, isOverride: policy.isOverride)) }
            return
        }
        guard !policies.isEmpty else {
            console.print("no policy is set: lastWriterWins, keepFirst and renumber apply everywhere")
            return
        }
        var table = Table(["scope", "on", "policy", "set by"])
        table.widestCell = 80
        for policy in policies {
            table.append([
                .init(PolicyText.scope(policy.setting)), .init(PolicyText.aspect(policy.setting.aspect)), .init(policy.setting.policy),
                .init(policy.isOverride ? "this replica" : "the space"),
            ])
        }
        for line in table.lines(console.style) { console.print(line) }
        for line in PolicyText.unused(policies) { console.note(line) }
    }
}

/// The names of what a policy settles.
enum PolicyAspect: String, ExpressibleByArgument, CaseIterable {
    case update, delete, unique, key, whole, schema

    var aspect: PolicySetting.Aspect {
        switch self {
        case .update: .update
        case .delete: .delete
        case .unique: .unique
        case .key: .key
        case .whole: .whole
        case .schema: .schema
        }
    }
}

/// Prints policies.
enum PolicyText {
    static func scope(_ setting: PolicySetting) -> String {
        guard let table = setting.table else { return "space" }
        return setting.column.map { "\(table).\($0)" } ?? table
    }

    /// Policies of columns that have no effect, because a policy settles the rows of their table as a whole.
    static func unused(_ policies: [PolicyInForce]) -> [String] {
        let rows = policies.map(\.setting).filter(\.settlesWholeRows)
        return policies.map(\.setting).compactMap { setting in
            guard let table = setting.table, let column = setting.column, setting.aspect == .update,
                let row = rows.last(where: { $0.table?.isSameIdentifier(as: table) ?? true })
            else { return nil }
            return "annals: note: \(PrintableText.of("\(table).\(column)")) \(setting.policy) has no effect, because \(scope(row)) "
                + "\(row.policy) settles whole rows"
        }
    }

    static func aspect(_ aspect: PolicySetting.Aspect) -> String {
        PolicyAspect.allCases.first { $0.aspect == aspect }?.rawValue ?? ""
    }

    static func change(_ setting: PolicySetting) -> String {
        setting.policy.isEmpty ? "\(aspect(setting.aspect)) reset to the default" : "\(aspect(setting.aspect)) \(setting.policy)"
    }

    /// A policy that was reset to the default is empty.
    static func json(_ setting: PolicySetting, isOverride: Bool) -> JSON {
        .object([
            "table": .text(setting.table), "column": .text(setting.column), "on": .text(aspect(setting.aspect)),
            "policy": .text(setting.policy), "here": .bool(isOverride),
        ])
    }
}
