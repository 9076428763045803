package import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Notes the error that ended a sync for `status`, or nil after a successful one.
    ///
    /// It never throws, and waits for no other program: what is reported is the error itself, and this is only a note.
    ///
    /// - Returns: whether the store has the note now.
    @discardableResult
    package func note(syncProblem error: AnnalsError?) async -> Bool {
        let problem = error.flatMap { SyncProblem($0, time: configuration.now()) }
        if error != nil, problem == nil { return true }
        let result: Void? = try? await translated("sync") {
            try await database.writeWithoutTransaction { [busyTimeout] db in
                guard try StoreSchema.exists(db), try StoreSchema.isReplica(db) else { return }
                // Mostly there was no problem before, and then no lock is needed.
                if problem == nil, try Meta(db).text(.syncProblem) == nil { return }
                try busyTimeout.suspended {
                    try db.inTransaction(.immediate) {
                        try SyncProblem.save(problem, db)
                        return .commit
                    }
                }
            }
        }
        return result != nil
    }
}
