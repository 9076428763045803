import AnnalsCore
import AnnalsReplica
import AnnalsStore
import GRDB

/// An external program rebuilds a tracked table or drops its triggers. Its later writes are not captured, until the store compares
/// its rows with the log.
extension SimulatedSpace {
    func strangerRebuilds(_ replica: Replica, _ rebuild: Step.Rebuild, _ statements: [String], _ isTolerant: Bool) throws {
        guard let table = plan.schema.table(rebuild.table) else { return }
        if replica.rowsBeforeStrangers == nil { replica.rowsBeforeStrangers = replica.look.rows }
        do {
            try replica.asStranger(statements, isTolerant: isTolerant, checksParents: false) { db in
                if rebuild.dropsOnlyTriggers { try Self.dropTriggers(table, db) } else { try Self.rebuild(table.name, db) }
            }
            replica.mayHoldUnseen = true
            // Older tokens expire.
            replica.memories = []
            replica.forgetReaders()
        } catch let error as DatabaseError where Replica.isRefusal(error) {
            // Nothing was done in this case.
        }
        try observe(replica, after: .strangers)
    }

    private static func dropTriggers(_ table: Table, _ db: Database) throws {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name GLOB 'annals_*'",
            arguments: [table.name])
        for name in names { try db.execute(sql: "DROP TRIGGER \(name)") }
    }

    /// Rebuilds a table as migration tools do: a new table, the copied rows, the old name, and the indexes and triggers that the
    /// tool knows.
    ///
    /// - Parameter declaration: the new form of the table; nil for the same as before.
    static func rebuild(_ table: String, as declaration: String? = nil, _ db: Database) throws {
        let statements = try Row.fetchAll(
            db,
            sql: """
                SELECT type, sql FROM sqlite_master
                WHERE tbl_name = ? AND sql IS NOT NULL AND name NOT GLOB 'annals_*' ORDER BY type = 'trigger', rowid
                """, arguments: [table])
        let columns = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?)", arguments: [table]).joined(separator: ", ")
        // Triggers on other tables may name the table, which does not exist for a moment.
        try db.execute(sql: "PRAGMA legacy_alter_table = ON")
        defer { try? db.execute(sql: "PRAGMA legacy_alter_table = OFF") }
        for row in statements where row["type"] == "table" {
            let sql = declaration ?? row["sql"]
            guard let start = sql.firstIndex(of: "(") else { continue }
            try db.execute(sql: "CREATE TABLE rebuilt \(sql[start...])")
        }
        try db.execute(sql: "INSERT INTO rebuilt (\(columns)) SELECT \(columns) FROM \(table)")
        try db.execute(sql: "DROP TABLE \(table); ALTER TABLE rebuilt RENAME TO \(table)")
        for row in statements where row["type"] != "table" { try db.execute(sql: row["sql"]) }
    }

    /// The store exchanges nothing until its rows are compared, and the comparison changes no row. Afterwards all rows are in the log
    /// or the outbox (law 3).
    func checkDoubt(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        guard before.isInDoubt else { return }
        if cause == .reply, before.rows != now.rows, !before.unsettled, !isBroken(before.rows) {
            let changed = before.rows.differences(to: now.rows).map(\.text)
            throw Violation("rows in doubt", "\(replica.name) changed rows when it compared them: \(changed)")
        }
        for position in before.position..<max(before.position, now.position) where !replica.accepted.contains(position + 1) {
            throw Violation("rows in doubt", "\(replica.name) took in position \(position + 1) before its rows were compared")
        }
        if now.isInDoubt { return }
        (replica.mayHoldUnseen, replica.memories, replica.rowsBeforeStrangers) = (false, [], nil)
        try noteReplaced(replica, before, now)
    }

    /// An outbox that needs uncaptured rows is sent together with them as one transaction.
    private func noteReplaced(_ replica: Replica, _ before: Look, _ now: Look) throws {
        let waiting = Set(now.outbox.map(\.id))
        let filled = ledger.intents(of: replica.name, in: before.outboxed..<now.outboxed).map(\.id)
        let gone = (before.outbox.map(\.id) + filled).filter { !waiting.contains($0) && oracle.position(of: $0) == nil }
        guard !gone.isEmpty else { return }
        let kept = before.outbox.filter { waiting.contains($0.id) }
        // A transaction that only starts history again has no changes and is never in the outbox.
        // The log may have its schema entry already.
        let dropped = before.outbox.count { gone.contains($0.id) && !$0.decoded.hasSchema }
        guard dropped == 0 || kept.isEmpty || before.unsettled else {
            throw Violation("rows in doubt", "\(replica.name) gave up \(dropped) of its transactions and kept \(kept.count)")
        }
        for id in gone { ledger.noteGone(id) }
    }
}
