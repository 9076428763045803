import AnnalsCore
import AnnalsHistory
import AnnalsStore
import ArgumentParser

struct ResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolve a conflict with one side, or with other values.",
        discussion: """
            A new transaction writes the chosen values to the current row, and the conflict is resolved on every replica. --set \
            gives other values, alone or in addition to --take, and overrides its values. If the row has all these values already, \
            the command only marks the conflict as resolved. A conflict that was resolved before is changed only with --again, on any \
            replica.

            A value is NULL, a number, X'…' for bytes, 'text', or plain text.

            Examples:
              annals resolve shop.db 3 --take incoming
              annals resolve shop.db 3 --take stored --author ann
              annals resolve shop.db 4 --set email=ann@example.org
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The conflict's number, as annals conflicts prints it.")
    var id: Int64
    @Option(help: "The side to keep: stored or incoming.")
    var take: ConflictSide?
    @Option(help: ArgumentHelp("A column's value; repeatable.", valueName: "column=value"))
    var set: [String] = []
    @Flag(help: "Decide a conflict that was resolved before once more.")
    var again = false
    @Option(help: "The author of the new transaction.")
    var author: String?
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if take == nil, set.isEmpty { throw ValidationError("give --take stored, --take incoming, or --set COLUMN=VALUE.") }
        _ = try values()
    }

    func run() async throws {
        let store = try argument.open()
        let settlement = try await store.resolve(id, taking: take?.side, setting: try values(), author: author, again: again)
        let (word, text) =
            switch settlement {
            case .changed: ("changed", "conflict \(id) is resolved; the next sync carries it to the other replicas")
            case .agreed: ("agreed", "conflict \(id) is resolved; the row had these values already")
            case .nothingToDo:
                (
                    "nothingToDo",
                    "conflict \(id) was resolved before, and the row has these values; nothing was changed. --again moves the mark"
                )
            }
        var number: Int64?
        if case .changed(let made) = settlement { number = made }
        if output.json {
            output.console.print(
                .object([
                    "store": .text(argument.store), "id": .integer(id), "outcome": .text(word),
                    "number": number.map { .integer($0) } ?? .null,
                ]))
        } else {
            output.console.print(text)
            if let number { try await printChanges(of: number, in: store) }
        }
    }

    /// The values before and after, because the row may have been changed since the conflict.
    private func printChanges(of number: Int64, in store: Store) async throws {
        let print = HistoryPrint(console: output.console, json: false, values: true)
        let lines = try await store.read { db in
            let reader = try HistoryReader(db)
            var lines: [String] = []
            guard let transaction = try reader.transaction(number) else { return lines }
            try reader.forEachChange(in: transaction, HistoryRequest()) { lines.append("  " + print.line($0)) }
            return lines
        }
        for line in lines { output.console.print(line) }
    }

    private func values() throws -> [String: Value] {
        var values: [String: Value] = [:]
        for text in set {
            guard let place = text.firstIndex(of: "="), place > text.startIndex else {
                throw ValidationError("--set takes COLUMN=VALUE, not \(text).")
            }
            values[String(text[..<place])] = SQLLiteral.value(String(text[text.index(after: place)...]))
        }
        return values
    }
}

enum ConflictSide: String, ExpressibleByArgument, CaseIterable {
    case stored, incoming

    var side: JournalEntry.Side {
        switch self {
        case .stored: .stored
        case .incoming: .incoming
        }
    }
}

/// Values in SQL notation; other text is taken as it is.
enum SQLLiteral {
    static func value(_ text: String) -> Value {
        if text.uppercased() == "NULL" { return .null }
        if let integer = Int64(text) { return .integer(integer) }
        if let first = text.first, first.isNumber || "+-.".contains(first), let real = Double(text), real.isFinite { return .real(real) }
        if text.count >= 2, text.hasPrefix("'"), text.hasSuffix("'") {
            return .text(String(text.dropFirst().dropLast().replacing("''", with: "'")))
        }
        if text.count >= 3, text.lowercased().hasPrefix("x'"), text.hasSuffix("'"), let bytes = Self.bytes(text.dropFirst(2).dropLast()) {
            return .blob(bytes)
        }
        return .text(text)
    }

    /// A part of a key. Text such as 007 is not the number 7. The column's type converts it where that is meant.
    static func key(_ text: String) -> Value {
        let value = value(text)
        return switch value {
        case .integer(let integer) where String(integer) != text: .text(text)
        case .real: .text(text)
        default: value
        }
    }

    private static func bytes(_ digits: Substring) -> [UInt8]? {
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        var rest = digits
        while !rest.isEmpty {
            guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}
