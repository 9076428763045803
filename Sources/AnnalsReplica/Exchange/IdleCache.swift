package import AnnalsWire
package import GRDB
import Synchronization

/// Shows whether a file was written: equal values mean that its rows and schema are unchanged.
///
/// `data_version` changes with the commits of other connections. The number of changed rows changes with the writes of this
/// connection, also those that were rolled back. `schema_version` changes with each change of the schema. Only values that were read
/// on one connection can be compared.
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

/// The result of the last step of an exchange. It is valid until the file is written, because a repeated step would find the same.
/// So an exchange with nothing to do takes no lock, and its cost does not depend on the number of tables.
///
/// It must be used on the connection that the store writes with. Results of a transaction must be recorded only after the
/// transaction is committed.
package final class IdleCache: Sendable {
    private struct Found {
        var state: FileState
        var ready: ExchangeStatus?
        var page: Page?
        var taken: ExchangeStatus?
    }

    private let found = Mutex<Found?>(nil)

    package init() {}

    /// The result that `prepareOutbox` would have.
    package func ready(_ db: Database) throws -> ExchangeStatus? {
        try current(db)?.ready
    }

    /// The result of applying a page without entries; nil if this is not the last applied page.
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

    /// The page without the fields that do not concern the log.
    private static func lasting(_ page: Page) -> Page {
        var page = page
        (page.relayTime, page.isSnapshotDue, page.snapshotToCheck) = (nil, false, nil)
        return page
    }
}
