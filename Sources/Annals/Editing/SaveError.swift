public import AnnalsCore
import AnnalsStore
import GRDB

/// Why a save or a write was refused. Nothing was changed.
///
///     do {
///         try await context.save()
///     } catch let error as AnnalsError {
///         switch error.saveError {
///         case .conflicts(let conflicts): show(conflicts)                  // others were first
///         case .constraints(let refused): complain(refused[0].columns)     // a value is taken, missing or wrong
///         case .validation(let row, let reason): mark(row, reason)         // what the record's own code threw
///         case .busy: tryAgain()
///         case nil: throw error
///         }
///     }
public enum SaveError: Error, Sendable {
    /// Rows that others changed or deleted since they were read.
    case conflicts([MergeConflict])
    /// Rows that a constraint refuses.
    case constraints([ConstraintConflict])
    /// The error that a record's `willSave`, `willInsert`, `willUpdate` or `willDelete` threw.
    case validation(PersistentIdentifier, any Error)
    /// Another program held the lock for the whole waiting time.
    case busy
}

extension AnnalsError {
    /// Why a save or a write was refused, in a form that a caller can switch on; nil for every other error.
    ///
    /// For a plain `store.write` or a batch, a constraint is described only by its name, table and columns, because SQLite reports no
    /// more. A refused foreign key also has the row and, for a delete, the rows that refer to it, if the table has history.
    public var saveError: SaveError? {
        if let error = underlying as? SaveError { return error }
        if code == .busy { return .busy }
        if let refused = detail as? RefusedReference { return .constraints([refused.conflict]) }
        guard code == .constraint, let error = underlying as? DatabaseError else { return nil }
        return Refused(error).map { .constraints([$0.conflict]) }
    }

    static func othersChanged(_ conflicts: [MergeConflict]) -> AnnalsError {
        let tables = Set(conflicts.map(\.identifier.table)).sorted().joined(separator: ", ")
        return AnnalsError(
            .conflict, operation: "save",
            "\(conflicts.count == 1 ? "a row" : "\(conflicts.count) rows") of \(tables) changed since the last read",
            hint: "Nothing was saved. Refresh and save again, or save with a merge policy", underlying: SaveError.conflicts(conflicts))
    }

    static func refused(_ conflicts: [ConstraintConflict]) -> AnnalsError {
        let first = conflicts.first
        let columns = first.map { conflict in conflict.columns.map { "\(conflict.table).\($0)" }.joined(separator: ", ") } ?? ""
        let place = columns.isEmpty ? first?.table ?? "" : columns
        let reason =
            switch first?.kind {
            case .unique: "another row has a unique value of a saved row"
            case .foreignKey: "a foreign key would be violated"
            case .notNull: "a NOT NULL column has no value"
            case .check: "a CHECK constraint refuses a row"
            case .datatype: "a value has the wrong type"
            case .trigger, nil: "a constraint or trigger refuses a row"
            }
        let what = place.isEmpty ? reason : "\(reason): \(place)"
        return AnnalsError(
            .constraint, operation: "save", what, hint: "Nothing was saved. Correct the values and save again",
            underlying: SaveError.constraints(conflicts))
    }

    static func validation(_ row: PersistentIdentifier, _ error: any Error) -> AnnalsError {
        AnnalsError(
            .validation, operation: "save", "the validation of a row of \(row.table) failed",
            hint: "Nothing was saved. Correct the record and save again",
            underlying: SaveError.validation(row, error))
    }

    static func editing(_ message: String, hint: String? = nil) -> AnnalsError {
        AnnalsError(.usage, operation: "edit", message, hint: hint)
    }
}

/// What SQLite's error says about the constraint that a statement would break.
struct Refused {
    var kind: ConstraintConflict.Kind
    var table: String
    var columns: [String]
    var name: String?

    /// nil for an error that is not about a constraint.
    init?(_ error: DatabaseError) {
        let message = error.message ?? ""
        let text = message.split(separator: ": ", maxSplits: 1).dropFirst().first.map(String.init) ?? ""
        (table, columns, name) = ("", [], nil)
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID: kind = .unique
        case .SQLITE_CONSTRAINT_NOTNULL: kind = .notNull
        case .SQLITE_CONSTRAINT_CHECK: kind = .check
        case .SQLITE_CONSTRAINT_FOREIGNKEY: kind = .foreignKey
        case _ where message == "FOREIGN KEY constraint failed": kind = .foreignKey
        case .SQLITE_CONSTRAINT_TRIGGER: kind = .trigger
        case _ where error.resultCode == .SQLITE_MISMATCH: kind = .datatype
        // SQLITE_CONSTRAINT_DATATYPE, for which GRDB has no name.
        case _ where message.hasPrefix("cannot store "): kind = .datatype
        case _ where error.resultCode == .SQLITE_CONSTRAINT: kind = .trigger
        default: return nil
        }
        switch kind {
        case .unique where text.hasPrefix("index '"): name = String(text.dropFirst(7).dropLast())
        case .unique, .notNull: readColumns(text)
        case .check: name = text
        case .trigger: name = message
        case .datatype: readColumns(message.split(separator: " column ").last.map(String.init) ?? "")
        case .foreignKey: break
        }
    }

    /// Parses `table.first, table.second`.
    private mutating func readColumns(_ text: String) {
        for part in text.split(separator: ", ") {
            let names = part.split(separator: ".", maxSplits: 1)
            guard names.count == 2 else { continue }
            table = String(names[0])
            columns.append(String(names[1]))
        }
    }

    var conflict: ConstraintConflict {
        ConstraintConflict(
            kind: kind, table: table, identifier: nil, name: name, columns: columns, values: [:], mine: nil, others: [])
    }
}

extension RefusedReference {
    fileprivate var conflict: ConstraintConflict {
        ConstraintConflict(
            kind: .foreignKey, table: row.table, identifier: row, name: other, columns: columns,
            values: Dictionary(zip(columns, values.map(\.databaseValue)), uniquingKeysWith: { $1 }), mine: nil,
            others: children.map { StoredRow($0.table, $0.row) })
    }
}
