/// Builds parts of SQL statements.
package enum SQL {
    /// An identifier in double quotes. It may contain spaces, quotes and keywords.
    package static func quote(_ identifier: String) -> String {
        "\"" + identifier.replacing("\"", with: "\"\"") + "\""
    }

    /// A string literal in single quotes.
    package static func literal(_ text: String) -> String {
        "'" + text.replacing("'", with: "''") + "'"
    }

    /// Joins the terms by a binary operator, as a balanced tree.
    ///
    /// SQLite refuses a chain of a thousand ORs, because its expression has a thousand levels. The tree has ten.
    package static func balanced(_ terms: [String], operator name: String) -> String {
        guard terms.count > 1 else { return terms.first ?? "" }
        let middle = terms.count / 2
        let left = balanced(Array(terms[..<middle]), operator: name)
        let right = balanced(Array(terms[middle...]), operator: name)
        return "(\(left) \(name) \(right))"
    }
}
