import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
package import GRDB

/// A read transaction that begins with other programs' writes sealed.
///
/// What they commit between the seal and the read stays open. That is in order, since raw changes can be undone without
/// a transaction of theirs; unless rows were noted in it that a REPLACE may have removed, which only sealing finds out.
/// Then it is sealed again.
package enum SealedRead {
    package static func run<T>(_ db: Database, _ environment: CaptureEnvironment, _ body: () throws -> T) throws -> T {
        for _ in 0..<ReplayLimits.sealingAttempts {
            if try isOpen(db) {
                try db.inTransaction(.immediate) {
                    try Sealing.seal(db, environment)
                    return .commit
                }
            }
            var result: T?
            try db.inTransaction(.deferred) {
                if try OpenTable.fetchAll(db).contains(where: \.hasNotes) { return .rollback }
                result = try body()
                return .commit
            }
            if let result { return result }
        }
        throw AnnalsError(.busy, operation: "read", "another program writes all the time", hint: "Try again", isRetryable: true)
    }

    /// Whether there is something to seal. Only reads.
    package static func isOpen(_ db: Database) throws -> Bool {
        guard try StoreSchema.exists(db) else { return false }
        return try Drift.isSuspected(db) || !OpenTable.fetchAll(db).isEmpty
    }
}
