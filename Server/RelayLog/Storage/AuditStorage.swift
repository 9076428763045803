internal import AnnalsCore

/// The SQL of the audit log.
enum AuditStorage {
    /// Writes a line in the transaction of its action, so that both are stored or neither.
    static func add(_ entry: AuditEntry?, subject: String, outcome: String, in db: any LogConnection) throws {
        guard let entry else { return }
        let sql = """
            INSERT INTO annals_audit(id, time, actor, action, space, subject, outcome) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (id) DO NOTHING
            """
        try db.execute(
            sql, [entry.id, entry.time, try name(of: entry.by, in: db), entry.action.rawValue, entry.space, subject, outcome])
    }

    /// The line keeps the label that the token has now.
    private static func name(of actor: Operator, in db: any LogConnection) throws -> String {
        switch actor {
        case .commandLine(let user): return "cli (\(printable(user)))"
        case .anyone: return "anyone"
        case .automatic: return "automatic"
        case .subject(let name): return "subject \(printable(name))"
        case .token(let id):
            let label = try db.row("SELECT label FROM annals_tokens WHERE id = ?1", [id])?.text(0) ?? ""
            return label.isEmpty ? "token \(id)" : "token \(id) (\(label))"
        }
    }

    private static func printable(_ name: String) -> String {
        String(String.UnicodeScalarView(name.unicodeScalars.filter { $0.properties.generalCategory != .control }.prefix(100)))
    }

    /// The time of the newest successful action of a kind, in milliseconds since 1970.
    static func newest(_ action: OperatorAction, in db: any LogConnection) throws -> Int64? {
        let sql = "SELECT time FROM annals_audit WHERE action = ?1 AND outcome = ?2 ORDER BY number DESC LIMIT 1"
        return try db.integer(sql, [action.rawValue, AuditEntry.done])
    }

    static func lines(of space: SpaceName?, before: Int64, limit: Int, in db: any LogConnection) throws -> [AuditLine] {
        let columns = "SELECT number, time, actor, action, space, subject, outcome FROM annals_audit"
        let rows =
            if let space {
                try db.rows("\(columns) WHERE space = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3", [space, before, limit])
            } else {
                try db.rows("\(columns) WHERE number < ?1 ORDER BY number DESC LIMIT ?2", [before, limit])
            }
        return try rows.map { row in
            AuditLine(
                number: try row.integer(0), time: try row.integer(1), actor: try row.text(2), action: try row.text(3),
                space: row.isNull(4) ? nil : SpaceName(try row.text(4)), subject: try row.text(5), outcome: try row.text(6))
        }
    }
}
