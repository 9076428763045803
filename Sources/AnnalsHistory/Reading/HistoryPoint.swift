import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
public import Foundation
package import GRDB

/// A point of history: the end of a transaction, or a moment within a transaction that holds several commits of other programs.
///
/// Annals records the commits of programs that give no name together. Their raw changes have times, so the rows at a moment between
/// two of these commits are known too. The moment may also be between two statements of one commit.
///
///     let point = try await store.point(at: beforeTheMistake)
///     let outcome = try await store.replay(to: point, output: path)
public struct HistoryPoint: Hashable, Sendable, CustomStringConvertible {
    /// The last whole transaction before the point.
    public let token: HistoryToken
    /// Milliseconds since 1970; nil for the end of the transaction.
    package let milliseconds: Int64?

    /// The moment within the transaction that follows `token`, if the point is not the end of a transaction.
    public var moment: Date? { milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1_000) } }

    /// The end of a transaction.
    public init(_ token: HistoryToken) {
        self.init(token, milliseconds: nil)
    }

    private init(_ token: HistoryToken, milliseconds: Int64?) {
        self.token = token
        self.milliseconds = milliseconds
    }

    public var description: String {
        milliseconds.map { "\(token) with the writes up to \(ISODate.text(milliseconds: $0))" } ?? token.description
    }

    /// - Parameter text: as `HistoryBounds.resolve` reads it.
    /// - Throws: `AnnalsError`, as `HistoryBounds.resolve`.
    package init(named text: String, _ bounds: HistoryBounds, _ db: Database) throws {
        let token = try bounds.resolve(text, db)
        let isName = ["start", "latest"].contains(text) || HistoryToken(text) != nil || Int64(text) != nil
        try self.init(token, milliseconds: isName ? nil : ISODate.milliseconds(text), db)
    }

    /// - Parameter milliseconds: since 1970. It is left out if no write of the transaction after `token` is older.
    package init(_ token: HistoryToken, milliseconds: Int64?, _ db: Database) throws {
        let isWithin =
            if let milliseconds, let row = try TransactionTable(db).row(token.number + 1),
                try row.value("origin") == TransactionOrigin.external.rawValue, try (row.value("author") as String?) == nil
            {
                try SpanTable(db).hasChange(in: token.number + 1, lists: TransactionTable.lists(row.value("tables")), upTo: milliseconds)
            } else {
                false
            }
        self.init(token, milliseconds: isWithin ? milliseconds : nil)
    }

    package func isAfter(_ other: HistoryPoint) -> Bool {
        (token.number, milliseconds ?? .min) > (other.token.number, other.milliseconds ?? .min)
    }

    /// The number of the transaction that the point divides.
    package var dividedTransaction: Int64? { milliseconds == nil ? nil : token.number + 1 }

    /// A sentence for a person; nil for the end of a transaction.
    package var note: String? {
        dividedTransaction.map { "the moment is within transaction \($0), between two writes, and perhaps between two of one program" }
    }
}

extension NetChanges {
    /// What a transaction did after a point within it.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` if the time of one of its changes is not known.
    package func parts(after point: HistoryPoint) throws -> [Part] {
        guard let number = point.dividedTransaction, let moment = point.milliseconds else { return [] }
        return try parts(of: number, sections(of: number), after: moment, before: nil)
    }

    /// What a transaction wrote to some of its tables after a moment and before another one, in milliseconds since 1970.
    ///
    /// - Throws: as `parts(after:)`.
    package func parts(of number: Int64, _ sections: [Section], after start: Int64?, before end: Int64?) throws -> [Part] {
        try parts(
            of: sections.compactMap { section in
                func last(upTo moment: Int64) throws -> Int64 {
                    if let last = try RawChangeReader.last(in: section, upTo: moment, db) { return last }
                    throw AnnalsError(
                        .tokenExpired, operation: "history",
                        "transaction \(number) cannot be divided: a change in it has no time",
                        hint: "A REPLACE removed a row of another key, or a trigger hid a write. Use a point before or after it")
                }
                let first = try start.map { try max(last(upTo: $0) + 1, section.first) } ?? section.first
                let final = try end.map { try min(last(upTo: $0 - 1), section.last) } ?? section.last
                return first <= final ? Section(layout: section.layout, first: first, last: final) : nil
            })
    }
}
