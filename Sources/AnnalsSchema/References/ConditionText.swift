import AnnalsCore
import AnnalsMerge
import AnnalsSQLite

/// Reads the condition of a reference: comparisons `column = literal` and `column IN (literal, …)`, joined by AND. Nothing else is
/// allowed, because a condition may come from another replica: no function, no other table, no pattern.
struct ConditionText {
    /// Why a condition cannot be used. The text continues a sentence.
    struct Invalid: Error {
        let reason: String
    }

    private let tokens: [SQLToken]
    private var position = 0
    private let table: DeclaredTable

    static func condition(_ text: String, on table: DeclaredTable) throws -> RowCondition {
        guard text.utf8.count <= SchemaLimits.conditionBytes else {
            throw Invalid(reason: "the condition has more than \(SchemaLimits.conditionBytes) bytes")
        }
        var reader = ConditionText(text, table)
        var terms = [try reader.term()]
        while reader.take({ $0.isWord("AND") }) { terms.append(try reader.term()) }
        guard reader.position == reader.tokens.count else { throw reader.unexpected }
        return RowCondition(terms: terms)
    }

    private init(_ text: String, _ table: DeclaredTable) {
        tokens = SQLToken.all(in: text)
        self.table = table
    }

    private mutating func term() throws -> RowCondition.Term {
        guard let name = next()?.identifier else { throw unexpected }
        var values: [Value] = []
        if take({ $0.isWord("IN") }) {
            guard take({ $0.isSymbol("(") }) else { throw unexpected }
            repeat { values.append(try literal()) } while take { $0.isSymbol(",") }
            guard take({ $0.isSymbol(")") }) else { throw unexpected }
        } else {
            guard take({ $0.isSymbol("=") }) else { throw unexpected }
            _ = take { $0.isSymbol("=") }
            values.append(try literal())
        }
        guard let columnIndex = table.columnIndex(of: name) else {
            throw Invalid(reason: "the condition names \(name), which is no stored column of \(table.name)")
        }
        let column = table.footprintColumn(columnIndex, collation: table.columns[columnIndex].collation)
        return RowCondition.Term(columnIndex: columnIndex, column: column, values: values)
    }

    private mutating func literal() throws -> Value {
        let isNegative = take { $0.isSymbol("-") }
        guard let token = next() else { throw unexpected }
        switch token.kind {
        case .string where !isNegative: return .text(ByteString(token.name ?? ""))
        case .number:
            guard let number = Int64((isNegative ? "-" : "") + token.text) else { throw unexpected }
            return .integer(number)
        default:
            position -= 1
            throw unexpected
        }
    }

    private mutating func next() -> SQLToken? {
        guard position < tokens.count else { return nil }
        position += 1
        return tokens[position - 1]
    }

    private mutating func take(_ isWanted: (SQLToken) -> Bool) -> Bool {
        guard position < tokens.count, isWanted(tokens[position]) else { return false }
        position += 1
        return true
    }

    private var unexpected: Invalid {
        let place = position < tokens.count ? "at \(tokens[position].text)" : "at its end"
        return Invalid(
            reason:
                "the condition cannot be read \(place): it may only have comparisons like kind = 'album' or kind IN (1, 2), joined by AND")
    }
}
