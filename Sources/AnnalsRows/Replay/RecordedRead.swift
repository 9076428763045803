import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
package import GRDB

/// A read transaction that begins after the writes of other programs were recorded.
///
/// Writes that are committed between the recording and the read are not recorded yet. Such raw changes can be undone without a
/// recorded transaction. The exception is a range with notes of rows that a REPLACE may have removed, because only recording
/// finds out whether it did. Then the writes are recorded again before the read.
package enum RecordedRead {
    package static func run<T>(_ db: Database, _ environment: CaptureEnvironment, _ body: () throws -> T) throws -> T {
        for _ in 0..<ReplayLimits.recordingAttempts {
            if try isOpen(db) {
                try db.inTransaction(.immediate) {
                    try TransactionRecorder.recordExternal(db, environment)
                    return .commit
                }
            }
            var result: T?
            try db.inTransaction(.deferred) {
                if try UnrecordedRange.fetchAll(db).contains(where: \.hasNotes) { return .rollback }
                result = try body()
                return .commit
            }
            if let result { return result }
        }
        throw AnnalsError(.busy, operation: "read", "another program keeps writing to the file", hint: "Try again", isRetryable: true)
    }

    /// Whether there are writes to record. Only reads.
    package static func isOpen(_ db: Database) throws -> Bool {
        guard try StoreSchema.exists(db) else { return false }
        return try Drift.isSuspected(db) || !UnrecordedRange.fetchAll(db).isEmpty
    }
}
