import AnnalsCore

/// What a CREATE statement says, by its tokens.
///
/// It is used only for facts that the schema tables do not provide: CHECK constraints, generated columns and the
/// expressions of an index.
package struct SQLText {
    private let tokens: [SQLToken]

    package init(_ sql: String) {
        tokens = SQLToken.all(in: sql)
    }

    /// The text after the name of the table or index, with single spaces and without comments.
    package var normalizedBody: String {
        let start = tokens.firstIndex { $0.isSymbol("(") } ?? tokens.endIndex
        return tokens[start...].map(\.text).joined(separator: " ")
    }

    /// The tokens with single spaces. Names have no quotes and are folded, so that equal names are equal strings.
    /// SQLite adds quotes to a name that it renames.
    package var comparable: String { Self.comparable(tokens[...]) }

    /// The same for the text after the name of the table or index.
    package var comparableBody: String { Self.comparable(tokens[(tokens.firstIndex { $0.isSymbol("(") } ?? tokens.endIndex)...]) }

    private static func comparable(_ tokens: ArraySlice<SQLToken>) -> String {
        tokens.map { $0.identifier?.foldedIdentifier ?? $0.text }.joined(separator: " ")
    }

    /// The module of a CREATE VIRTUAL TABLE statement.
    package var virtualTableModule: String? {
        guard let using = tokens.firstIndex(where: { $0.isWord("USING") }), using + 1 < tokens.count else { return nil }
        return tokens[using + 1].identifier
    }

    /// Whether a CREATE TRIGGER statement creates an AFTER trigger.
    package var isAfterTrigger: Bool {
        let keywords = ["BEFORE", "AFTER", "INSTEAD", "DELETE", "INSERT", "UPDATE"]
        // The trigger's name comes first. It can only be one of these keywords if it is quoted.
        return tokens.first { token in keywords.contains { token.isWord($0) } }?.isWord("AFTER") ?? false
    }

    /// The expressions of a CREATE INDEX statement, one for each column, without ASC or DESC.
    package var indexExpressions: [String] {
        parenthesized(from: 0).map { part in
            let isOrdered = tokens[part].last.map { $0.isWord("ASC") || $0.isWord("DESC") } ?? false
            return source(isOrdered ? part.dropLast() : part)
        }
    }

    /// The WHERE clause of a CREATE INDEX statement, without the table's name before columns.
    package var indexCondition: String? {
        guard let open = tokens.firstIndex(where: { $0.isSymbol("(") }), let close = closing(open),
            close + 1 < tokens.count, tokens[close + 1].isWord("WHERE")
        else { return nil }
        let condition = (close + 2)..<tokens.count
        return source(condition, leavingOut: condition.filter(isOfQualifier))
    }

    /// Whether a token is the name or the dot of a qualifier, as in `t.` of `t.a`. The dot in `BETWEEN .5 AND 1.5` is
    /// not.
    private func isOfQualifier(_ index: Int) -> Bool {
        let name = tokens[index].isSymbol(".") ? index - 1 : index
        guard name >= 0, name + 2 < tokens.count, tokens[name + 1].isSymbol(".") else { return false }
        return tokens[name].identifier != nil && tokens[name + 2].identifier != nil
    }

    /// The expressions of the CHECK constraints in a CREATE TABLE statement.
    package var checkExpressions: [String] {
        tokens.indices.compactMap { index in
            guard tokens[index].isWord("CHECK"), index + 1 < tokens.count, tokens[index + 1].isSymbol("("), let close = closing(index + 1)
            else { return nil }
            return tokens[(index + 2)..<close].map(\.text).joined(separator: " ")
        }
    }

    /// The expression of a generated column in a CREATE TABLE statement. The columns of `inlined` are replaced by their
    /// own expressions.
    package func generationExpression(of column: String, inlining inlined: [String] = []) -> String? {
        let definition = parenthesized(from: 0).first { part in
            tokens[part].first?.identifier?.isSameIdentifier(as: column) ?? false
        }
        guard let definition, let keyword = definition.first(where: { tokens[$0].isWord("AS") }),
            keyword + 1 < definition.upperBound, tokens[keyword + 1].isSymbol("("), let close = closing(keyword + 1)
        else { return nil }
        let others = inlined.filter { !$0.isSameIdentifier(as: column) }
        return source((keyword + 2)..<close) { name in
            others.first { $0.isSameIdentifier(as: name) }
                .flatMap { other in generationExpression(of: other, inlining: others.filter { $0 != other }).map { "(\($0))" } }
        }
    }

    /// The parts between the first opening parenthesis and its closing one, split at the commas.
    private func parenthesized(from start: Int) -> [Range<Int>] {
        guard let open = tokens[start...].firstIndex(where: { $0.isSymbol("(") }), let close = closing(open) else { return [] }
        var parts: [Range<Int>] = []
        var begin = open + 1
        var depth = 0
        for index in begin..<close {
            switch tokens[index].text {
            case "(": depth += 1
            case ")": depth -= 1
            case "," where depth == 0:
                parts.append(begin..<index)
                begin = index + 1
            default: break
            }
        }
        return parts + [begin..<close]
    }

    private func closing(_ open: Int) -> Int? {
        var depth = 0
        for index in open..<tokens.count {
            if tokens[index].isSymbol("(") { depth += 1 }
            if tokens[index].isSymbol(")") { depth -= 1 }
            if depth == 0 { return index }
        }
        return nil
    }

    /// The text of some tokens as written. Names are replaced if `replacement` returns a text.
    private func source(
        _ part: Range<Int>, leavingOut omitted: [Int] = [], replacement: (String) -> String? = { _ in nil }
    ) -> String {
        var text = ""
        var end = part.isEmpty ? 0 : tokens[part.lowerBound].range.lowerBound
        for index in part where !omitted.contains(index) {
            let token = tokens[index]
            if end < token.range.lowerBound { text += " " }
            text += token.identifier.flatMap(replacement) ?? token.text
            end = token.range.upperBound
        }
        return text
    }
}
