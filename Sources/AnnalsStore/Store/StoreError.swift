import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// Turns what happens inside into the one error at the edge: what, and what to do.
enum StoreError {
    static func translate(_ error: any Error, operation: String, path: String = "") -> AnnalsError {
        switch error {
        case let error as AnnalsError:
            return error
        case let error as DatabaseError:
            return database(error, operation, path)
        case let error as MergeError:
            return merge(error, operation)
        case let error as EntryRefusal:
            return error.annalsError(translate(error.reason, operation: operation, path: path))
        case let error as PullError:
            return pull(error, operation)
        case let error as WireError:
            return wire(error, operation)
        case let error as ContradictingLog:
            var told = error.evidence.error
            told.underlying = error
            return told
        case let error as DoubtfulSnapshot:
            return error.annalsError
        case let error as StoreDamage:
            return AnnalsError(.corruptBatch, operation: operation, error.message, hint: "Run annals verify")
        case is RowDecodingError:
            // A single value that was read; a caller's own came as its own error.
            return translate(StoreDamage("one of Annals' own tables"), operation: operation)
        case is CancellationError:
            return AnnalsError(.cancelled, operation: operation, "stopped")
        default:
            return AnnalsError(.defect, operation: operation, "something unforeseen: \(type(of: error))", underlying: error)
        }
    }

    /// Whether one of Annals' own tables holds what cannot be read, or is gone.
    static func isDamage(_ error: any Error) -> Bool {
        if let error = error as? DatabaseError, error.message?.hasPrefix("no such column") == true { return true }
        return translate(error, operation: "read").code == .corruptBatch
    }

    /// nil where one of Annals' own tables holds what cannot be read, or is gone.
    static func unlessDamaged<T>(_ body: () throws -> T) throws -> T? {
        do {
            return try body()
        } catch  where isDamage(error) {
            return nil
        }
    }

    /// Whether `translate` has words for it.
    static func knows(_ error: any Error) -> Bool {
        error is AnnalsError || error is DatabaseError || error is MergeError || error is EntryRefusal || error is PullError
            || error is WireError || error is StoreDamage || error is ContradictingLog || error is DoubtfulSnapshot
            || error is CancellationError
    }

    private static func database(_ error: DatabaseError, _ operation: String, _ path: String) -> AnnalsError {
        let name = path.isEmpty ? "the store" : path
        let message = error.message ?? ""
        func make(_ code: AnnalsError.Code, _ text: String, _ hint: String? = nil, retry: Bool = false) -> AnnalsError {
            AnnalsError(code, operation: operation, text, hint: hint, isRetryable: retry, underlying: error)
        }
        switch error.resultCode {
        case .SQLITE_NOTADB:
            return make(.notADatabase, "\(name) is not a SQLite database, or it is encrypted")
        case .SQLITE_CORRUPT:
            return make(.notADatabase, "\(name) is a damaged SQLite database", "Restore it, or try sqlite3 with .recover")
        case .SQLITE_CANTOPEN:
            return make(.fileNotFound, "\(name) cannot be opened", "Check the path and its permissions")
        case .SQLITE_READONLY, .SQLITE_PERM:
            return make(.readOnly, "\(name) cannot be written", "Check the permissions of the file and its folder")
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            return make(.busy, "\(name) is locked by another program", "Try again when it is done", retry: true)
        case .SQLITE_FULL:
            return make(.diskFull, "the disk is full", "Make room; nothing was changed")
        case .SQLITE_IOERR:
            return make(.diskFull, "reading or writing \(name) failed: \(message)", "Check the disk; nothing was changed")
        case .SQLITE_INTERRUPT:
            return make(.cancelled, "stopped")
        // What is next in number is there already.
        case .SQLITE_CONSTRAINT where message.contains("failed: annals_"):
            return make(.corruptBatch, "Annals' own tables are damaged: \(message)", "Run annals verify")
        // What is no integer under an INTEGER PRIMARY KEY has a code of its own.
        case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH:
            return make(.constraint, message)
        // SQLite itself says "out of memory" where it is asked about no connection at all.
        case .SQLITE_MISUSE where [ClosedConnection.message, "out of memory"].contains(message):
            return make(.usage, "the store is closed", "Open it again")
        case _ where message == "interrupted":
            return make(.cancelled, "stopped")
        default:
            for missing in ["no such function", "no such collation", "no such module", "unable to use function", "unsupported file format"]
            where message.contains(missing) {
                return make(.schemaRefused, "the schema needs something this program does not have: \(message)")
            }
            for damage in ["no such table: annals_", "no such table: main.annals_", "cannot open value of type", "no such rowid"]
            where message.contains(damage) {
                return make(.corruptBatch, "Annals' own tables are damaged: \(message)", "Run annals verify")
            }
            return make(.defect, "SQLite: \(message) (\(error.extendedResultCode.rawValue))")
        }
    }

    /// A virtual table that a trigger writes is not what it should be; the rows are.
    ///
    /// - Parameter names: of the full-text indexes that are found damaged.
    static func damagedIndex(_ names: [String], _ error: any Error, operation: String) -> AnnalsError {
        guard let first = names.first else {
            return AnnalsError(
                .constraint, operation: operation, "a virtual table that a trigger writes is damaged",
                hint: "Make it anew; the rows are whole, and nothing was changed", underlying: error)
        }
        return AnnalsError(
            .constraint, operation: operation, "the full-text index \(names.joined(separator: ", ")) does not hold what it indexes",
            hint: "Run INSERT INTO \(first)(\(first)) VALUES('rebuild'); the rows are whole, and nothing was changed", underlying: error)
    }

    private static func merge(_ error: MergeError, _ operation: String) -> AnnalsError {
        switch error {
        case .diverged(let divergence):
            return AnnalsError(
                .diverged, operation: operation, describe(divergence),
                hint: "Nothing was overwritten. Keep this file, clone the space anew and compare the two")
        case .unknownLayout:
            return AnnalsError(.corruptBatch, operation: operation, "an entry of the log names a table that its batch does not describe")
        case .unknownTable(let table):
            return AnnalsError(
                .waitingForMigration, operation: operation, "the log has rows of the table \(table), which is not tracked here",
                hint: "Bring the schema up to date, then sync again; nothing was changed")
        case .unknownColumn(let table, let column):
            return AnnalsError(
                .waitingForMigration, operation: operation, "the log has values of the column \(table).\(column), which this store lacks",
                hint: "Bring the schema up to date, then sync again; nothing was changed")
        case .danglingReference(let table, _, let parent, _):
            return AnnalsError(
                .diverged, operation: operation,
                "a row of \(table) would be left without its parent\(parent.isEmpty ? "" : " in \(parent)")",
                hint: "Nothing was changed. Run annals verify")
        case .unsettled(let table):
            return AnnalsError(.defect, operation: operation, "local changes of \(table) cannot be laid on top of what was pulled")
        }
    }

    /// Names table, position and column. The values stay out of the message: they are the user's.
    private static func describe(_ divergence: Divergence) -> String {
        let place = divergence.position.map { " at position \($0)" } ?? ""
        switch divergence.kind {
        case .missingRow:
            return "the rows are not what the log says: a row of \(divergence.table) is missing\(place)"
        case .otherValue(let column, _, _):
            return "the rows are not what the log says: \(divergence.table).\(column) has another value\(place)"
        case .refused(let reason):
            return "the rows are not what the log says: a row of \(divergence.table) cannot be written\(place) (\(reason))"
        }
    }

    private static func pull(_ error: PullError, _ operation: String) -> AnnalsError {
        switch error {
        case .outOfOrder(let position):
            return AnnalsError(.corruptBatch, operation: operation, "the relay sent position \(position) out of order")
        case .missingResolver(let name, let table):
            return AnnalsError(
                .configuration, operation: operation, "the policy of \(table) is custom: \(name), and this program has no such closure",
                hint: "Register it when the store is opened, or set another policy; nothing was changed")
        case .pushUnderWay:
            return AnnalsError(.busy, operation: operation, "a push has no answer yet", isRetryable: true)
        case .staysNoMore:
            return AnnalsError(.defect, operation: operation, "a rebase of the whole outbox left some of it")
        case .untriedSchema:
            return AnnalsError(.defect, operation: operation, "a schema entry was not tried", underlying: error)
        }
    }

    private static func wire(_ error: WireError, _ operation: String) -> AnnalsError {
        switch error {
        case .newerVersion(let version):
            AnnalsError(.newerFormat, operation: operation, "an entry has a newer format (\(version))", hint: "Update annals")
        default:
            AnnalsError(.corruptBatch, operation: operation, "a batch is damaged: \(error)", hint: "Nothing was applied")
        }
    }
}
