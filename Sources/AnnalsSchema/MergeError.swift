package import AnnalsCore
import AnnalsSQLite

/// Why an entry could not be applied. No case changes the store.
package enum MergeError: Error {
    /// The rows differ from what the log says.
    case diverged(Divergence)
    /// A body refers to a table that its batch did not declare.
    case unknownLayout(Int)
    /// The entry has a table or column that this store does not have yet.
    case unknownTable(String)
    case unknownColumn(table: String, column: String)
    /// A commit would leave a child without its parent. `position` is that of the entry that causes this, if it is an entry of the
    /// log.
    case danglingReference(table: String, key: [Value], parent: String, position: Position? = nil)
    /// An outbox transaction cannot be rebased with any decision.
    case unsettled(table: String)
}

/// The exact place where rows and log differ.
package struct Divergence: Sendable {
    package enum Kind: Sendable {
        case missingRow
        case otherValue(column: String, stored: Value, expected: Value)
        /// The row cannot be written, for example because its key is taken.
        case refused(String)
    }

    package var table: String
    package var key: [Value]
    package var position: Position?
    package var kind: Kind

    package init(table: String, key: [Value], position: Position? = nil, kind: Kind) {
        self.table = table
        self.key = key
        self.position = position
        self.kind = kind
    }
}

extension MergeError: TranslatableError {
    package func annalsError(operation: String, path: String) -> AnnalsError {
        switch self {
        case .diverged(let divergence):
            return AnnalsError(
                .diverged, operation: operation, Self.describe(divergence),
                hint: "Nothing was overwritten. Keep this file, clone the space again and compare the two files")
        case .unknownLayout:
            return AnnalsError(.corruptBatch, operation: operation, "an entry of the log names a table that its batch does not describe")
        case .unknownTable(let table):
            return AnnalsError(
                .waitingForMigration, operation: operation, "the log has rows of the table \(table), which is not tracked here",
                hint: "Bring the schema up to date, then sync again; nothing was changed")
        case .unknownColumn(let table, let column):
            return AnnalsError(
                .waitingForMigration, operation: operation,
                "the log has values of the column \(table).\(column), which this store does not have",
                hint: "Bring the schema up to date, then sync again; nothing was changed")
        case .danglingReference(let table, _, let parent, _):
            return AnnalsError(
                .diverged, operation: operation,
                "a row of \(table) would have no parent\(parent.isEmpty ? "" : " in \(parent)")",
                hint: "Nothing was changed. Check the store with verify()", commandHint: "Nothing was changed. Run annals verify")
        case .unsettled(let table):
            return AnnalsError(.defect, operation: operation, "internal error: local changes of \(table) cannot be rebased")
        }
    }

    /// Names table, position and column. Values are user data and stay out of the message.
    private static func describe(_ divergence: Divergence) -> String {
        let place = divergence.position.map { " at position \($0)" } ?? ""
        switch divergence.kind {
        case .missingRow:
            return "the rows differ from the log: a row of \(divergence.table) is missing\(place)"
        case .otherValue(let column, _, _):
            return "the rows differ from the log: \(divergence.table).\(column) has another value\(place)"
        case .refused(let reason):
            return "the rows differ from the log: a row of \(divergence.table) cannot be written\(place) (\(reason))"
        }
    }
}
