public import AnnalsCore
import Foundation
public import GRDB

/// Why a record could not be written: what an app branches on, where `AnnalsError` tells a person.
///
///     do {
///         try await person.insert()
///     } catch let error as AnnalsError {
///         switch error.refusal {
///         case .notUnique(_, let columns): ask(about: columns)
///         case .notFound: forget(person)
///         default: throw error
///         }
///     }
public enum RecordRefusal: Error, Hashable, Sendable {
    /// There is no row of this key.
    case notFound(table: String, key: [String: DatabaseValue])
    /// Another row has the same values in a primary key or a unique index.
    case notUnique(table: String, columns: [String])
    /// A column that must have a value has none.
    case missingValue(table: String, column: String)
    /// A reference leads to no row, or a row that others refer to was to go. SQLite does not say which.
    case brokenReference
    /// A CHECK constraint, by its name or its text.
    case failedCheck(String)
    /// A value of another type than the column's.
    case wrongType(String)
}

extension AnnalsError {
    /// Why a record was refused; nil for what is no refusal of a record.
    public var refusal: RecordRefusal? {
        switch underlying {
        case let refusal as RecordRefusal: refusal
        case let error as DatabaseError: RecordRefusal(error)
        default: nil
        }
    }
}

extension RecordRefusal {
    /// What SQLite says of a constraint, as `UNIQUE constraint failed: person.email, person.country`.
    init?(_ error: DatabaseError) {
        let message = error.message ?? ""
        let detail = message.split(separator: ": ", maxSplits: 1).dropFirst().first.map(String.init) ?? ""
        let places = detail.components(separatedBy: ", ").map { Self.place($0) }
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID:
            self = .notUnique(table: places.first?.table ?? "", columns: places.map(\.column))
        case .SQLITE_CONSTRAINT_NOTNULL:
            self = .missingValue(table: places.first?.table ?? "", column: places.first?.column ?? "")
        case .SQLITE_CONSTRAINT_FOREIGNKEY, .SQLITE_CONSTRAINT_TRIGGER: self = .brokenReference
        case .SQLITE_CONSTRAINT_CHECK: self = .failedCheck(detail)
        case .SQLITE_CONSTRAINT_DATATYPE, .SQLITE_MISMATCH: self = .wrongType(detail)
        default: return nil
        }
    }

    private static func place(_ text: String) -> (table: String, column: String) {
        guard let dot = text.lastIndex(of: ".") else { return ("", text) }
        return (String(text[..<dot]), String(text[text.index(after: dot)...]))
    }
}

/// Turns what GRDB throws over a record into the one error at the edge.
enum RecordErrors {
    static func translated<T>(_ operation: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as GRDB.RecordError {
            switch error {
            case .recordNotFound(databaseTableName: let table, key: let key):
                throw notFound(operation, table, key, error)
            }
        } catch let error as DatabaseError {
            guard let refusal = RecordRefusal(error) else { throw error }
            throw AnnalsError(.constraint, operation: operation, error.message ?? "", hint: hint(refusal), underlying: refusal)
        }
    }

    static func notFound(
        _ operation: String, _ table: String, _ key: [String: DatabaseValue], _ error: (any Error)? = nil
    ) -> AnnalsError {
        AnnalsError(
            .rowNotFound, operation: operation, "the table \(table) has no such row",
            hint: "It was deleted, or never inserted", underlying: RecordRefusal.notFound(table: table, key: key))
    }

    private static func hint(_ refusal: RecordRefusal) -> String? {
        switch refusal {
        case .notFound, .failedCheck, .wrongType: nil
        case .notUnique(_, let columns): "Another row has the same \(columns.joined(separator: ", "))"
        case .missingValue(_, let column): "Give \(column) a value"
        case .brokenReference: "Insert the row that is referred to first, or delete the rows that refer to it"
        }
    }
}
