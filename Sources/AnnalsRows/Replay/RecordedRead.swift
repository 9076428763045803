import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
package import GRDB

/// A read transaction that begins with other programs' writes recorded.
///
/// What they commit between the recording and the read stays open. That is in order, since raw changes can be undone without
/// a transaction of theirs; unless rows were noted in it that a REPLACE may have removed, which only recording finds out.
/// Then it is sealed again.
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
        throw AnnalsError(.busy, operation: "read", "another program writes all the time", hint: "Try again", isRetryable: true)
    }

    /// Whether there is something to record. Only reads.
    package static func isOpen(_ db: Database) throws -> Bool {
        guard try StoreSchema.exists(db) else { return false }
        return try Drift.isSuspected(db) || !UnrecordedRange.fetchAll(db).isEmpty
    }
}
