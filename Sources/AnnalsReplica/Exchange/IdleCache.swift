package import AnnalsWire
package import GRDB
import Synchronization

/// Tells whether anybody has written to a file since: equal values mean that its rows and schema are what they were.
///
/// `data_version` moves with other connections' commits, the count of changed rows with this connection's own writes, also
/// those it rolled back, and `schema_version` with a change of the schema by either. Only values read on one connection can be compared.
package struct FileState: Equatable {
    private let dataVersion: Int64
    private let schemaVersion: Int64
    private let changedRows: Int

    package init(_ db: Database) throws {
        dataVersion = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.data_version")) ?? 0
        schemaVersion = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.schema_version")) ?? 0
        changedRows = db.totalChangesCount
    }
}

/// Where the last step of an exchange left the file, for as long as nobody writes to it: doing the step again would find the same.
/// So an exchange with nothing to do costs the same however many tables there are, and takes no lock.
///
/// It must be asked on the connection that the store writes with, and told what was read at the end of a transaction only once
/// that is committed.
package final class IdleCache: Sendable {
    private struct Found {
        var state: FileState
        var ready: ExchangeStatus?
        var page: Page?
        var taken: ExchangeStatus?
    }

    private let found = Mutex<Found?>(nil)

    package init() {}

    /// What `prepareOutbox` would answer.
    package func ready(_ db: Database) throws -> ExchangeStatus? {
        try current(db)?.ready
    }

    /// What taking in a page without entries would answer; nil where it is another page than the one taken in last.
    package func taken(_ page: Page, _ db: Database) throws -> ExchangeStatus? {
        guard page.frames.isEmpty, let current = try current(db), current.page == Self.lasting(page) else { return nil }
        return current.taken
    }

    package func note(_ state: FileState, ready status: ExchangeStatus) {
        note(state) { $0.ready = status }
    }

    package func note(_ state: FileState, taken page: Page, _ status: ExchangeStatus) {
        note(state) { ($0.page, $0.taken) = (Self.lasting(page), status) }
    }

    private func current(_ db: Database) throws -> Found? {
        guard let found = found.withLock({ $0 }) else { return nil }
        return try found.state == FileState(db) ? found : nil
    }

    private func note(_ state: FileState, _ change: (inout Found) -> Void) {
        found.withLock { found in
            var new = found.flatMap { $0.state == state ? $0 : nil } ?? Found(state: state)
            change(&new)
            found = new
        }
    }

    /// The page without what is not of the log.
    private static func lasting(_ page: Page) -> Page {
        var page = page
        (page.relayTime, page.isSnapshotDue, page.snapshotToCheck) = (nil, false, nil)
        return page
    }
}
