import GRDBSQLite

extension [SQLToken] {
    /// The names of the functions that an expression or a trigger calls, as written.
    ///
    /// Another name can stand before a parenthesis: a keyword, a type in CAST, the table or alias of an INSERT, and a common table
    /// expression. These are left out.
    package var calledFunctions: [String] {
        indices.dropLast().compactMap { index in
            guard self[index + 1].isSymbol("("), let name = self[index].identifier, !isKeyword(at: index), !isOfTable(at: index),
                !isCommonTable(at: index)
            else { return nil }
            return name
        }
    }

    /// The names after COLLATE.
    package var collations: [String] {
        indices.dropLast().compactMap { index in self[index].isWord("COLLATE") ? self[index + 1].name : nil }
    }

    private func isKeyword(at index: Int) -> Bool {
        let text = self[index].text
        return self[index].kind == .word && sqlite3_keyword_check(text, Int32(text.utf8.count)) != 0
    }

    /// Whether the name follows INTO, AS or a dot. Function names have no schema.
    private func isOfTable(at index: Int) -> Bool {
        guard index > 0 else { return false }
        let previous = self[index - 1]
        return previous.isSymbol(".") || previous.isWord("INTO") || previous.isWord("AS")
    }

    /// Whether the name and its parentheses begin a common table expression: `name (…) AS (`, also with MATERIALIZED.
    private func isCommonTable(at index: Int) -> Bool {
        var depth = 0
        for place in (index + 1)..<count {
            if self[place].isSymbol("(") { depth += 1 }
            if self[place].isSymbol(")") { depth -= 1 }
            guard depth == 0 else { continue }
            guard place + 2 < count, self[place + 1].isWord("AS") else { return false }
            let next = self[place + 2]
            return next.isSymbol("(") || next.isWord("MATERIALIZED") || next.isWord("NOT")
        }
        return false
    }
}
