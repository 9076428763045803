import AnnalsCore

/// The event that fires a trigger.
package enum TriggerEvent: String, Hashable, Sendable {
    case insert
    case update
    case delete
}

/// One statement of a trigger's body, with the facts that decide whether it runs while entries are applied.
package struct TriggerStatement: Hashable, Sendable {
    package enum Effect: Hashable, Sendable {
        /// Writes rows of one table or view. The event is the one that an INSTEAD OF trigger would handle.
        case writes(table: String, event: TriggerEvent)
        /// A SELECT. Its result is not used.
        case reads
    }

    package let text: String
    package let effect: Effect
    package let raises: RaiseKinds
    /// The names of called functions, folded. Keywords and names of common table expressions before a parenthesis may
    /// be among them.
    package let functions: Set<String>
    /// Every word and quoted text, folded. They include all names that the statement uses.
    package let words: Set<String>

    /// nil if the tokens are not a statement that SQLite allows in a trigger.
    package init?(_ tokens: ArraySlice<SQLToken>, source: [UInt8]) {
        guard let first = tokens.first, let last = tokens.last, let effect = Self.effect(of: tokens) else { return nil }
        self.text = String(decoding: source[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
        self.effect = effect
        self.raises = RaiseKinds(in: tokens)
        self.functions = Self.functions(in: tokens)
        self.words = Self.words(in: tokens)
    }

    package static func words(in tokens: ArraySlice<SQLToken>) -> Set<String> {
        Set(tokens.compactMap(\.name?.foldedIdentifier))
    }

    /// The words with which a statement in a trigger can begin.
    package static let firstWords = ["INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "VALUES", "WITH"]

    private static func effect(of tokens: ArraySlice<SQLToken>) -> Effect? {
        guard var rest = afterCommonTables(tokens), let verb = rest.popFirst(), verb.kind == .word else { return nil }
        let event: TriggerEvent
        switch verb.text.foldedIdentifier {
        case "select", "values":
            return .reads
        case "insert":
            event = .insert
            skipConflictClause(&rest)
            guard rest.popFirst()?.isWord("INTO") == true else { return nil }
        case "replace":
            event = .insert
            guard rest.popFirst()?.isWord("INTO") == true else { return nil }
        case "update":
            event = .update
            skipConflictClause(&rest)
        case "delete":
            event = .delete
            guard rest.popFirst()?.isWord("FROM") == true else { return nil }
        default:
            return nil
        }
        guard var table = rest.popFirst()?.name else { return nil }
        if rest.first?.isSymbol(".") == true {
            guard let qualified = rest.dropFirst().first?.name else { return nil }
            table = qualified
        }
        return .writes(table: table, event: event)
    }

    /// The tokens from the verb on. A leading WITH clause ends with the parenthesis before the verb.
    private static func afterCommonTables(_ tokens: ArraySlice<SQLToken>) -> ArraySlice<SQLToken>? {
        guard tokens.first?.isWord("WITH") == true else { return tokens }
        var depth = 0
        for (index, token) in zip(tokens.indices, tokens) {
            if depth == 0, tokens.startIndex < index, tokens[index - 1].isSymbol(")"), firstWords.contains(where: token.isWord) {
                return tokens[index...]
            }
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
        }
        return nil
    }

    private static func skipConflictClause(_ tokens: inout ArraySlice<SQLToken>) {
        if tokens.first?.isWord("OR") == true { tokens = tokens.dropFirst(2) }
    }

    private static func functions(in tokens: ArraySlice<SQLToken>) -> Set<String> {
        var functions: Set<String> = []
        for index in tokens.indices.dropLast() where tokens[index + 1].isSymbol("(") {
            if let name = tokens[index].name { functions.insert(name.foldedIdentifier) }
        }
        return functions
    }
}

/// The RAISE calls in a part of a trigger.
package struct RaiseKinds: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) {
        self.rawValue = rawValue
    }

    /// RAISE(IGNORE). It ends the trigger early and skips the row.
    package static let ignore = RaiseKinds(rawValue: 1)
    /// RAISE(ABORT | FAIL | ROLLBACK, …). It refuses the write.
    package static let refuse = RaiseKinds(rawValue: 2)

    package init(in tokens: ArraySlice<SQLToken>) {
        self = []
        for index in tokens.indices.dropLast(2) where tokens[index].isWord("RAISE") && tokens[index + 1].isSymbol("(") {
            insert(tokens[index + 2].isWord("IGNORE") ? .ignore : .refuse)
        }
    }
}
