import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import ArgumentParser

struct ReferenceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reference",
        abstract: "Name references that the schema does not declare.",
        usage: """
            annals reference STORE [list]
            annals reference STORE suggest
            annals reference STORE add CHILD.COLUMN[,COLUMN...] PARENT.COLUMN[,COLUMN...] [--on-delete ACTION] [--when CONDITION]
            annals reference STORE none CHILD.COLUMN
            annals reference STORE remove CHILD.COLUMN
            """,
        discussion: """
            A column such as items.album_id may refer to albums.id although the schema has no REFERENCES. Without the reference, a \
            sync that renumbers an album leaves its items at another one. What you add belongs to the space: it reaches every replica \
            through the log, and merges keep it as a foreign key. SQLite still enforces nothing.

            suggest reads names, triggers and a sample of the values. none records that a column is no reference. remove takes back \
            what was decided about a column. --on-delete says what a merge does with a row whose parent another replica deleted: \
            no-action and restrict keep the parent, set-null empties the column, cascade deletes the row. --when limits the reference \
            to some rows, by comparisons joined by AND; so one column can refer to several tables.

            Examples:
              annals reference beets.db suggest
              annals reference beets.db add items.album_id albums.id
              annals reference notes.db add note.owner album.id --when "kind = 'album'" --on-delete cascade
              annals reference beets.db none items.disc_id
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: ArgumentHelp("list, suggest, add, none or remove.", valueName: "action"))
    var words: [String] = []
    @Option(name: .customLong("on-delete"), help: "no-action, restrict, set-null or cascade.")
    var onDelete: ReferenceAction?
    @Option(help: "The rows that have the reference, for example \"kind = 'album'\".")
    var when: String?
    @OptionGroup var output: OutputOptions

    private var action: String { words.first ?? "list" }

    func validate() throws {
        switch (action, words.count) {
        case ("list", 0...1), ("suggest", 1), ("add", 3), ("none", 2), ("remove", 2): break
        default: throw ValidationError("give list, suggest, add CHILD.COLUMN PARENT.COLUMN, none CHILD.COLUMN, or remove CHILD.COLUMN.")
        }
        if action != "add", onDelete != nil || when != nil { throw ValidationError("--on-delete and --when are for add.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        switch action {
        case "list": print(try await store.references(), console)
        case "suggest": print(try await store.suggestReferences(), console)
        default:
            let tables = try await store.status().tracked
            let (table, columns) = try split(words[1], tables)
            var setting = ReferenceSetting(table: table, columns: columns, action == "none" ? .none : .undecided)
            if action == "add" {
                let (parent, parentColumns) = try split(words[2], tables)
                let target = ReferenceTarget(
                    table: parent, columns: parentColumns, onDelete: (onDelete ?? .noAction).action, condition: when)
                setting.decision = .refers(target)
            }
            if action == "remove" { try await requireDecision(setting, in: store) }
            try await store.setReferences([setting])
            if output.json {
                console.print(ReferenceText.json(setting, problem: nil))
            } else {
                console.print(PrintableText.of("\(setting.text): \(ReferenceText.decision(setting))"))
            }
        }
    }

    /// A table may have a dot in its name.
    private func split(_ name: String, _ tables: [String]) throws -> (table: String, columns: [String]) {
        var first: (String, [String])?
        for place in name.indices where name[place] == "." {
            let columns = name[name.index(after: place)...].split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            let split = (String(name[..<place]), columns)
            if tables.contains(where: { $0.isSameIdentifier(as: split.0) }) { return split }
            first = first ?? split
        }
        guard let first else {
            throw AnnalsError(
                .usage, operation: "reference", "\(name) names no column", hint: "Give a table and its column, such as items.album_id")
        }
        return first
    }

    private func requireDecision(_ setting: ReferenceSetting, in store: Store) async throws {
        func isSame(_ other: ReferenceSetting) -> Bool {
            other.table.isSameIdentifier(as: setting.table)
                && Set(other.columns.map(\.foldedIdentifier)) == Set(setting.columns.map(\.foldedIdentifier))
        }
        guard try await !store.references().contains(where: { isSame($0.setting) }) else { return }
        throw AnnalsError(
            .usage, operation: "reference", "nothing is decided about \(setting.text)",
            hint: "references() returns the decisions", commandHint: "annals reference \(argument.store) list shows the decisions")
    }

    private func print(_ decided: [DecidedReference], _ console: Console) {
        if output.json {
            for reference in decided { console.print(ReferenceText.json(reference.setting, problem: reference.problem)) }
            return
        }
        guard !decided.isEmpty else { return console.print("no reference is added to those that the schema declares") }
        var table = Table(["columns", "refer to", "on delete", "when", "remark"])
        table.widestCell = 80
        for reference in decided {
            let (setting, target) = (reference.setting, reference.setting.target)
            table.append([
                .init("\(setting.table).\(setting.columns.joined(separator: ","))"),
                .init(target.map { "\($0.table).\($0.columns.joined(separator: ","))" } ?? "nothing"),
                .init(target.map { ReferenceText.action($0.onDelete) } ?? ""), .init(target?.condition ?? ""),
                .init(reference.problem.map { "not followed: \($0)" } ?? ""),
            ])
        }
        for line in table.lines(console.style) { console.print(line) }
    }

    private func print(_ suggestions: [ReferenceSuggestion], _ console: Console) {
        if output.json {
            for suggestion in suggestions { console.print(ReferenceText.json(suggestion)) }
            return
        }
        guard !suggestions.isEmpty else { return console.print("no column looks like a reference that the schema does not declare") }
        for suggestion in suggestions { console.print(PrintableText.of(ReferenceText.line(suggestion))) }
    }
}

/// What happens to a row whose parent is deleted.
enum ReferenceAction: String, ExpressibleByArgument, CaseIterable {
    case noAction = "no-action"
    case restrict
    case setNull = "set-null"
    case cascade

    var action: ReferenceTarget.DeleteAction {
        switch self {
        case .noAction: .noAction
        case .restrict: .restrict
        case .setNull: .setNull
        case .cascade: .cascade
        }
    }
}

/// Prints references.
enum ReferenceText {
    static func action(_ action: ReferenceTarget.DeleteAction) -> String {
        ReferenceAction.allCases.first { $0.action == action }?.rawValue ?? ""
    }

    static func decision(_ setting: ReferenceSetting) -> String {
        switch setting.decision {
        case .none: "no reference"
        case .undecided: "no longer decided"
        case .refers(let target):
            "a reference, on delete \(action(target.onDelete))" + (target.condition.map { ", when \($0)" } ?? "")
        }
    }

    /// `strong  items.album_id -> albums.id (100 %): album_id is named after albums`
    static func line(_ suggestion: ReferenceSuggestion) -> String {
        let coverage = suggestion.coverage.map { " (\(Int(($0 * 100).rounded(.down))) % of the sampled values)" } ?? ""
        return "\(suggestion.strength.rawValue)  \(suggestion.setting.text)\(coverage): \(suggestion.reason)"
    }

    /// A line of `annals track`.
    static func remark(_ suggestion: ReferenceSuggestion) -> String {
        "\(suggestion.setting.text) looks like a reference that the schema does not declare: see annals reference"
    }

    static func json(_ suggestion: ReferenceSuggestion) -> JSON {
        .object([
            "table": .text(suggestion.table), "columns": .array(suggestion.columns.map { .text($0) }),
            "parent": .text(suggestion.target.table), "parentColumns": .array(suggestion.target.columns.map { .text($0) }),
            "onDelete": .text(action(suggestion.target.onDelete)), "coverage": suggestion.coverage.map { .real($0) } ?? .null,
            "reason": .text(suggestion.reason), "strength": .text(suggestion.strength.rawValue),
        ])
    }

    static func json(_ setting: ReferenceSetting, problem: String?) -> JSON {
        let target = setting.target
        let decision =
            switch setting.decision {
            case .refers: "reference"
            case .none: "none"
            case .undecided: "undecided"
            }
        return .object([
            "table": .text(setting.table), "columns": .array(setting.columns.map { .text($0) }), "decision": .text(decision),
            "parent": .text(target?.table), "parentColumns": .array((target?.columns ?? []).map { .text($0) }),
            "onDelete": .text(target.map { action($0.onDelete) }), "when": .text(target?.condition), "problem": .text(problem),
        ])
    }
}
