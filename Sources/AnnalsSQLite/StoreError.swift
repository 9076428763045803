package import AnnalsCore
import AnnalsWire
import GRDB

/// An error of one of the store's modules that can be translated into an `AnnalsError`.
package protocol TranslatableError: Error {
    func annalsError(operation: String, path: String) -> AnnalsError
}

/// Translates internal errors into `AnnalsError`, which says what happened and what to do.
package enum StoreError {
    package static func translate(_ error: any Error, operation: String, path: String = "") -> AnnalsError {
        known(error, operation, path)
            ?? AnnalsError(.defect, operation: operation, "unexpected error, please report it: \(type(of: error))", underlying: error)
    }

    /// The error that a call of the public API throws: `CancellationError` if the task was cancelled, as Swift's own functions do,
    /// otherwise an `AnnalsError`.
    package static func thrown(_ error: any Error, operation: String, path: String = "") -> any Error {
        let translated = translate(error, operation: operation, path: path)
        return translated.code == .cancelled ? CancellationError() : translated
    }

    /// nil for an error that does not come from the store.
    private static func known(_ error: any Error, _ operation: String, _ path: String) -> AnnalsError? {
        switch error {
        case let error as AnnalsError: error
        case let error as DatabaseError: database(error, operation, path)
        case let error as any TranslatableError: error.annalsError(operation: operation, path: path)
        case let error as WireError: wire(error, operation)
        case let error as Corruption: toVerify(.corruptBatch, operation: operation, error.message)
        case is CancellationError: AnnalsError(.cancelled, operation: operation, "stopped")
        // A single value in one of Annals' own tables. Errors of a caller's closure do not get here.
        case is RowDecodingError: known(Corruption("one of Annals' own tables"), operation, path)
        default: nil
        }
    }

    /// Whether one of Annals' own tables is missing or holds an unreadable value.
    package static func isCorruption(_ error: any Error) -> Bool {
        if let error = error as? DatabaseError, error.message?.hasPrefix("no such column") == true { return true }
        return translate(error, operation: "read").code == .corruptBatch
    }

    /// Returns nil if one of Annals' own tables is missing or holds an unreadable value.
    package static func unlessCorrupt<T>(_ body: () throws -> T) throws -> T? {
        do {
            return try body()
        } catch  where isCorruption(error) {
            return nil
        }
    }

    /// Whether `translate` knows the error. An unreadable single value does not count, because it may be a caller's own value.
    package static func knows(_ error: any Error) -> Bool {
        !(error is RowDecodingError) && known(error, "", "") != nil
    }

    /// An error whose cause `Store.verify()` may find.
    package static func toVerify(
        _ code: AnnalsError.Code, operation: String, _ message: String, underlying: (any Error)? = nil
    ) -> AnnalsError {
        AnnalsError(
            code, operation: operation, message, hint: "Check the store with verify()", commandHint: "Run annals verify",
            underlying: underlying)
    }

    /// The error for a corrupt virtual table that a trigger writes. The rows of the tracked tables are intact.
    ///
    /// - Parameter names: the names of the full-text indexes that were found corrupt.
    package static func corruptIndex(_ names: [String], _ error: any Error, operation: String) -> AnnalsError {
        guard let first = names.first else {
            return AnnalsError(
                .constraint, operation: operation, "a virtual table that a trigger writes is corrupt",
                hint: "Create it again; the rows are complete, and nothing was changed", underlying: error)
        }
        return AnnalsError(
            .constraint, operation: operation, "the full-text index \(names.joined(separator: ", ")) does not match its rows",
            hint: "Run INSERT INTO \(first)(\(first)) VALUES('rebuild'); the rows are complete, and nothing was changed", underlying: error)
    }

    private static func database(_ error: DatabaseError, _ operation: String, _ path: String) -> AnnalsError {
        let name = path.isEmpty ? "the store" : path
        let message = error.message ?? ""
        func make(_ code: AnnalsError.Code, _ text: String, _ hint: String? = nil, retry: Bool = false) -> AnnalsError {
            AnnalsError(code, operation: operation, text, hint: hint, isRetryable: retry, underlying: error)
        }
        func corruptTables() -> AnnalsError {
            toVerify(.corruptBatch, operation: operation, "Annals' own tables are corrupt: \(message)", underlying: error)
        }
        switch error.resultCode {
        case .SQLITE_NOTADB:
            return make(.notADatabase, "\(name) is not a SQLite database, or it is encrypted")
        case .SQLITE_CORRUPT:
            return make(.notADatabase, "\(name) is a corrupt SQLite database", "Restore it, or try sqlite3 with .recover")
        case .SQLITE_CANTOPEN:
            return make(.fileNotFound, "\(name) cannot be opened", "Check the path and its permissions")
        case .SQLITE_READONLY, .SQLITE_PERM:
            return make(.readOnly, "\(name) cannot be written", "Check the permissions of the file and its folder")
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            return make(.busy, "\(name) is locked by another program", "Try again later", retry: true)
        case .SQLITE_FULL:
            return make(.diskFull, "the disk is full", "Free disk space and try again; nothing was changed")
        case .SQLITE_IOERR:
            return make(.diskFull, "reading or writing \(name) failed: \(message)", "Check the disk; nothing was changed")
        case .SQLITE_INTERRUPT:
            return make(.cancelled, "stopped")
        // The next number in one of Annals' own tables exists already.
        case .SQLITE_CONSTRAINT where message.contains("failed: annals_"):
            return corruptTables()
        // SQLite has a separate code for a value in an INTEGER PRIMARY KEY that is not an integer.
        case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH:
            return make(.constraint, message)
        // Without a connection SQLite's message is "out of memory".
        case .SQLITE_MISUSE where [ClosedConnection.message, "out of memory"].contains(message):
            return make(.usage, "the store is closed", "Open it again")
        case _ where message == "interrupted":
            return make(.cancelled, "stopped")
        default:
            if message == noReading {
                return missing("the rows of a table are sorted by a collation that this program does not have", operation, error)
            }
            if isAboutMissingName(error) {
                return missing("the schema needs something this program does not have: \(message)", operation, error)
            }
            for refusal in ["unable to use function", "unsupported file format"] where message.contains(refusal) {
                return make(.schemaRefused, "the schema needs something this program does not have: \(message)")
            }
            for damage in ["no such table: annals_", "no such table: main.annals_", "cannot open value of type", "no such rowid"]
            where message.contains(damage) {
                return corruptTables()
            }
            return make(.defect, "SQLite: \(message) (\(error.extendedResultCode.rawValue))")
        }
    }

    /// Whether SQLite refused a statement because the connection does not have a function, a collation or a module.
    package static func isAboutMissingName(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError ?? (error as? AnnalsError)?.underlying as? DatabaseError, let message = error.message
        else {
            return false
        }
        return message == noReading
            || ["no such function", "unknown function", "no such collation", "no such module"].contains { message.contains($0) }
    }

    /// SQLite's message if it cannot read a table in the order of an unknown collation.
    private static let noReading = "no query solution"

    private static func missing(_ text: String, _ operation: String, _ error: DatabaseError) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: operation, text, hint: "Add it to the connections in Store.Configuration.prepareDatabase",
            commandHint: "Load the extension that has it with --load-extension", underlying: error)
    }

    private static func wire(_ error: WireError, _ operation: String) -> AnnalsError {
        switch error {
        case .newerVersion(let version):
            AnnalsError(
                .newerFormat, operation: operation, "an entry has a newer format (\(version))", hint: "Use a newer version of Annals",
                commandHint: "Update annals")
        default:
            AnnalsError(.corruptBatch, operation: operation, "a batch is corrupt: \(error)", hint: "Nothing was applied")
        }
    }
}
