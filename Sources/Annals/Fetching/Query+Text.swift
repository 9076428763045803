import AnnalsCore
import Foundation
import GRDB

/// Where a text must match, as `==`, `BEGINSWITH`, `CONTAINS` and `ENDSWITH` of Core Data's predicates.
public enum TextMatch: Sendable {
    case equals, begins, contains, ends
}

/// Differences between texts that a comparison ignores, as `[c]`, `[d]` and `[cd]` of Core Data's predicates.
public struct TextDifferences: OptionSet, Hashable, Sendable {
    public let rawValue: Int

    public init(rawValue: Int) { self.rawValue = rawValue }

    /// "a" is "A".
    public static let letterCase = Self(rawValue: 1)
    /// "é" is "e".
    public static let diacritics = Self(rawValue: 2)
}

extension Query {
    /// Adds a condition on the text of a column. "é" as one character is always the same as "e" with a combining accent. Numbers are
    /// compared as SQLite writes them; NULL and blobs match nothing.
    ///
    ///     let found = try await store.fetch(Customer.query.text("name", .contains, "cafe"))  // also "Café Nord"
    ///
    /// SQLite uses no index for it, and reads all rows that the other conditions select.
    ///
    /// - Parameters:
    ///   - column: the column's name. An access throws `AnnalsError` with code `usage` if the table has no such column.
    ///   - match: where the text must match.
    ///   - text: the text to find. The empty text is in every text.
    ///   - ignored: the differences that do not count.
    public func text(
        _ column: String, _ match: TextMatch, _ text: String, ignoring ignored: TextDifferences = [.letterCase, .diacritics]
    ) -> Self {
        let wanted = TextFolding.folded(text, ignored)
        return refined { request in
            request.filterWhenConnected { db in
                let columns = try db.columns(in: Record.databaseTableName)
                guard columns.contains(where: { $0.name.isSameIdentifier(as: column) }) else {
                    throw UnknownNames.column(column, of: Record.databaseTableName, columns)
                }
                try TextFolding.install(db)
                let value = Column(column)
                let text = SQL("CASE typeof(\(value)) WHEN 'blob' THEN NULL ELSE CAST(\(value) AS TEXT) END").sqlExpression
                let folded = TextFolding.function(text, ignored.rawValue)
                let length = wanted.unicodeScalars.count
                switch match {
                case .equals: return folded == wanted
                case .begins: return SQL("substr(\(folded), 1, \(length)) = \(wanted)").sqlExpression
                case .contains: return SQL("instr(\(folded), \(wanted)) > 0").sqlExpression
                // substr(x, -0) would be the whole text.
                case .ends where length == 0: return folded != nil
                case .ends: return SQL("substr(\(folded), \(-length)) = \(wanted)").sqlExpression
                }
            }
        }
    }
}

/// The SQL function that brings texts into a form in which ignored differences are gone.
enum TextFolding {
    static let function = DatabaseFunction("annals_folded", argumentCount: 2, pure: true) { values in
        guard let text = String.fromDatabaseValue(values[0]) else { return nil }
        return folded(text, TextDifferences(rawValue: Int.fromDatabaseValue(values[1]) ?? 0))
    }

    /// The function must not be replaced while a statement of the connection runs.
    static func install(_ db: Database) throws {
        do {
            _ = try db.cachedStatement(sql: "SELECT annals_folded('', 0)")
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            db.add(function: function)
        }
    }

    static func folded(_ text: String, _ ignored: TextDifferences) -> String {
        var options: String.CompareOptions = []
        if ignored.contains(.letterCase) { options.insert(.caseInsensitive) }
        if ignored.contains(.diacritics) { options.insert(.diacriticInsensitive) }
        let folded = options.isEmpty ? text : text.folding(options: options, locale: nil)
        return folded.precomposedStringWithCanonicalMapping
    }
}
