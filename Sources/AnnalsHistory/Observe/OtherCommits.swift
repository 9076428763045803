package import GRDB
import Synchronization

/// Counts commits of other connections. `PRAGMA data_version` on the store's connection changes with their commits and never with
/// its own.
package final class OtherCommits: Sendable {
    private let state = Mutex<(version: Int64?, count: Int)>((nil, 0))

    package init() {}

    package var count: Int { state.withLock { $0.count } }

    /// Checks for new commits. Call it only on the connection that the store writes with.
    package func look(_ db: Database) throws {
        let version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.data_version")) ?? 0
        state.withLock { state in
            if let known = state.version, known != version { state.count += 1 }
            state.version = version
        }
    }
}
