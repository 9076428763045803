import AnnalsCore

/// Rows and keys as JSON: objects from column to value, or arrays if the column names are not known.
enum RowJSON {
    static func row(_ values: [Value]?, _ columns: [String]) -> JSON {
        guard let values else { return .null }
        guard values.count == columns.count else { return .array(values.map(JSON.value)) }
        return .object(zip(columns, values).map { JSON.Member(key: $0, value: .value($1)) })
    }

    static func key(_ values: [Value], _ layout: TableLayout?) -> JSON {
        row(values, layout.map { layout in layout.key.map { layout.columns[$0] } } ?? [])
    }
}

/// Rows and keys as text, with values as in SQL.
enum RowText {
    static func row(_ values: [Value], _ columns: [String]) -> String {
        guard values.count == columns.count else { return values.map(value).joined(separator: ", ") }
        return zip(columns, values).map { "\(PrintableText.of($0)) = \(value($1))" }.joined(separator: ", ")
    }

    static func key(_ values: [Value], _ layout: TableLayout?) -> String {
        row(values, layout.map { layout in layout.key.map { layout.columns[$0] } } ?? [])
    }

    private static let longestText = 60

    static func value(_ value: Value) -> String {
        switch value {
        case .null: return "NULL"
        case .integer(let integer): return String(integer)
        case .real(let real): return real.description
        case .text(let bytes):
            guard let text = bytes.string else { return "(text, not UTF-8, \(bytes.count) bytes)" }
            return "'" + PrintableText.cut(PrintableText.of(text.replacing("'", with: "''")), to: longestText) + "'"
        case .blob(let bytes): return "(blob, \(bytes.count) bytes)"
        }
    }
}
