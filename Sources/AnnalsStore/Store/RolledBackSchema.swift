import GRDB

/// Clears GRDB's knowledge of the schema after a rollback.
///
/// GRDB remembers which tables exist, and does not forget those that a transaction created or dropped before it was rolled back. Without
/// this, a page of the log whose commit failed left a store that looked for a table which does not exist.
final class RolledBackSchema: TransactionObserver, Sendable {
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }

    func databaseDidChange(with event: DatabaseEvent) {}

    func databaseDidCommit(_ db: Database) {}

    func databaseDidRollback(_ db: Database) { db.clearSchemaCache() }
}
