/// The parts of a CREATE TRIGGER statement. The trigger can be created again with only some of its statements.
///
/// BEGIN and END are not reserved in SQLite: a column may have one of these names without quotes. So the BEGIN of the
/// body is the first one that does not follow a dot and that precedes the first word of a statement. The END of the
/// body is the last word. In between, every semicolon outside of quotes and comments ends a statement, even inside CASE
/// … END.
package struct TriggerDefinition: Hashable, Sendable {
    package enum Timing: Hashable, Sendable {
        case before
        case after
        case insteadOf
    }

    package let table: String
    package let timing: Timing
    package let event: TriggerEvent
    /// The names after UPDATE OF. Empty if any column fires the trigger.
    package let columns: [String]
    package let statements: [TriggerStatement]
    /// The RAISE calls in the WHEN clause.
    package let conditionRaises: RaiseKinds
    /// All words of the WHEN clause, folded.
    package let conditionWords: Set<String>

    /// The expression of the WHEN clause, as written; nil if there is none.
    package let conditionExpression: String?

    /// Timing, event and columns, as written.
    private let occasion: String
    /// FOR EACH ROW and the WHEN clause, as written.
    private let condition: String

    /// nil if the text is not a CREATE TRIGGER statement that can be parsed.
    package init?(sql: String) {
        let source = Array(sql.utf8)
        var scanner = TriggerScanner(tokens: SQLToken.all(in: sql)[...])
        guard let header = scanner.header(), let (condition, body) = scanner.conditionAndBody() else { return nil }
        var statements: [TriggerStatement] = []
        for tokens in body.split(omittingEmptySubsequences: false, whereSeparator: { $0.isSymbol(";") }) {
            guard let statement = TriggerStatement(tokens, source: source) else { return nil }
            statements.append(statement)
        }
        self.table = header.table
        self.timing = header.timing
        self.event = header.event
        self.columns = header.columns
        self.statements = statements
        self.conditionRaises = RaiseKinds(in: condition)
        self.conditionWords = TriggerStatement.words(in: condition)
        self.occasion = Self.text(of: header.occasion, in: source)
        self.condition = Self.text(of: condition, in: source)
        self.conditionExpression = condition.firstIndex { $0.isWord("WHEN") }.map { Self.text(of: condition[($0 + 1)...], in: source) }
    }

    /// The same trigger in the temp schema, with these statements.
    ///
    /// Names in the body have no schema, because SQLite forbids one after INSERT INTO, UPDATE and DELETE FROM in a
    /// trigger. In a TEMP trigger, SQLite looks names up in temp first, then in main. So no temporary table may have
    /// one of these names.
    package func temporarySQL(named name: String, statements: [String]) -> String {
        """
        CREATE TEMP TRIGGER \(SQL.quote(name))
        \(occasion)
        ON main.\(SQL.quote(table))
        \(condition)
        BEGIN
        \(statements.map { $0 + "\n;" }.joined(separator: "\n"))
        END
        """
    }

    private static func text(of tokens: ArraySlice<SQLToken>, in source: [UInt8]) -> String {
        guard let first = tokens.first, let last = tokens.last else { return "" }
        return String(decoding: source[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
    }
}

/// Reads the tokens of a CREATE TRIGGER statement from left to right.
private struct TriggerScanner {
    struct Header {
        package let table: String
        package let timing: TriggerDefinition.Timing
        package let event: TriggerEvent
        package let columns: [String]
        let occasion: ArraySlice<SQLToken>
    }

    var tokens: ArraySlice<SQLToken>

    /// Reads everything up to the name of the table.
    mutating func header() -> Header? {
        guard skip("CREATE") else { return nil }
        _ = skip("TEMP") || skip("TEMPORARY")
        guard skip("TRIGGER") else { return nil }
        if tokens.count > 2, zip(tokens, ["IF", "NOT", "EXISTS"]).allSatisfy({ $0.isWord($1) }) { tokens = tokens.dropFirst(3) }
        guard name() != nil else { return nil }
        let start = tokens
        guard let timing = timing(), let (event, columns) = eventAndColumns() else { return nil }
        let occasion = start[..<tokens.startIndex]
        guard skip("ON"), let table = name() else { return nil }
        return Header(table: table, timing: timing, event: event, columns: columns, occasion: occasion)
    }

    /// Reads the tokens before BEGIN, and the tokens between BEGIN and the last semicolon.
    mutating func conditionAndBody() -> (condition: ArraySlice<SQLToken>, body: ArraySlice<SQLToken>)? {
        while tokens.last?.isSymbol(";") == true { tokens.removeLast() }
        guard let begin = bodyStart(), tokens.popLast()?.isWord("END") == true, tokens.popLast()?.isSymbol(";") == true else { return nil }
        guard begin + 1 < tokens.endIndex else { return nil }
        return (tokens[..<begin], tokens[(begin + 1)...])
    }

    private func bodyStart() -> Int? {
        var depth = 0
        for index in tokens.indices.dropLast() {
            let token = tokens[index]
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            guard depth == 0, token.isWord("BEGIN"), index == tokens.startIndex || !tokens[index - 1].isSymbol(".") else { continue }
            if TriggerStatement.firstWords.contains(where: tokens[index + 1].isWord) { return index }
        }
        return nil
    }

    /// Without a keyword the timing is BEFORE.
    private mutating func timing() -> TriggerDefinition.Timing? {
        if skip("AFTER") { return .after }
        if skip("INSTEAD") { return skip("OF") ? .insteadOf : nil }
        _ = skip("BEFORE")
        return .before
    }

    private mutating func eventAndColumns() -> (TriggerEvent, [String])? {
        if skip("INSERT") { return (.insert, []) }
        if skip("DELETE") { return (.delete, []) }
        guard skip("UPDATE") else { return nil }
        guard skip("OF") else { return (.update, []) }
        var columns: [String] = []
        repeat {
            guard let column = tokens.popFirst()?.name else { return nil }
            columns.append(column)
        } while skipComma()
        return (.update, columns)
    }

    /// A name with or without a schema.
    private mutating func name() -> String? {
        guard let first = tokens.popFirst()?.name else { return nil }
        guard tokens.first?.isSymbol(".") == true else { return first }
        tokens.removeFirst()
        return tokens.popFirst()?.name
    }

    private mutating func skip(_ word: String) -> Bool {
        guard tokens.first?.isWord(word) == true else { return false }
        tokens.removeFirst()
        return true
    }

    private mutating func skipComma() -> Bool {
        guard tokens.first?.isSymbol(",") == true else { return false }
        tokens.removeFirst()
        return true
    }
}
