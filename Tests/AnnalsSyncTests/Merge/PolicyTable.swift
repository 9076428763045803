import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import GRDB

/// One conflict of every kind, each in tables of its own, rebased together under one policy.
///
/// Each conflict happens twice: once the incoming change is later, once the stored one.
struct PolicyTable {
    /// A kind of conflict. `first` is in the log when `second` is rebased. `#` is replaced with the tables' suffix.
    struct Situation {
        var name: String
        var schema: String
        var first: String
        var second: String
        /// A query for the result, as one text.
        var look: String
    }

    /// The values of a column: the first one, and those that the two sides write.
    struct Sample {
        var type = "INTEGER"
        var base = "10"
        var stored = "12"
        var incoming = "15"
    }

    static func situations(_ sample: Sample) -> [Situation] {
        let (base, stored, incoming) = (sample.base, sample.stored, sample.incoming)
        let item =
            "CREATE TABLE item# (id TEXT PRIMARY KEY NOT NULL, n \(sample.type), m INTEGER); INSERT INTO item# VALUES ('a', \(base), 1);"
        let n = "SELECT ifnull((SELECT n FROM item# WHERE id = 'a'), 'no row')"
        return [
            Situation(
                name: "update", schema: item, first: "UPDATE item# SET n = \(stored)", second: "UPDATE item# SET n = \(incoming)",
                look: n),
            Situation(
                name: "update, other column", schema: item.replacing("item#", with: "other#"), first: "UPDATE other# SET m = 2",
                second: "UPDATE other# SET n = \(incoming)", look: "SELECT n || ', ' || m FROM other#"),
            Situation(
                name: "updateOfDeleted", schema: item.replacing("item#", with: "gone#"), first: "DELETE FROM gone#",
                second: "UPDATE gone# SET n = \(incoming)", look: "SELECT ifnull((SELECT n FROM gone#), 'no row')"),
            Situation(
                name: "deleteOfUpdated", schema: item.replacing("item#", with: "kept#"), first: "UPDATE kept# SET n = \(stored)",
                second: "DELETE FROM kept#", look: "SELECT ifnull((SELECT n FROM kept#), 'no row')"),
            Situation(
                name: "insert, text key", schema: item.replacing("item#", with: "word#"),
                first: "INSERT INTO word# VALUES ('b', \(stored), 1)", second: "INSERT INTO word# VALUES ('b', \(incoming), 1)",
                look: "SELECT n FROM word# WHERE id = 'b'"),
            Situation(
                name: "insert, integer key", schema: "CREATE TABLE number# (id INTEGER PRIMARY KEY, n \(sample.type));",
                first: "INSERT INTO number# VALUES (1, \(stored))", second: "INSERT INTO number# VALUES (1, \(incoming))",
                look: "SELECT group_concat(id || ': ' || n, ', ') FROM (SELECT * FROM number# ORDER BY id)"),
            Situation(
                name: "unique", schema: "CREATE TABLE email# (id TEXT PRIMARY KEY NOT NULL, address TEXT UNIQUE);",
                first: "INSERT INTO email# VALUES ('stored', 'x@')", second: "INSERT INTO email# VALUES ('incoming', 'x@')",
                look: "SELECT group_concat(id) FROM email#"),
            Situation(
                name: "foreignKey",
                schema: """
                    CREATE TABLE team# (id TEXT PRIMARY KEY NOT NULL); INSERT INTO team# VALUES ('t');
                    CREATE TABLE person# (id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team# (id));
                    """, first: "DELETE FROM team#", second: "INSERT INTO person# VALUES ('p', 't')",
                look: "SELECT CASE (SELECT count(*) FROM person#) WHEN 0 THEN 'no child' ELSE 'both' END"),
            Situation(
                name: "check",
                schema: """
                    CREATE TABLE span# (id TEXT PRIMARY KEY NOT NULL, low INTEGER, high INTEGER, CHECK (low <= high));
                    INSERT INTO span# VALUES ('a', 1, 9);
                    """, first: "UPDATE span# SET low = 7", second: "UPDATE span# SET high = 3",
                look: "SELECT low || '–' || high FROM span#"),
        ]
    }

    /// The outcome of each situation under one policy, in the situations' order.
    static func outcomes(_ policies: MergePolicies, _ sample: Sample) async throws -> [String] {
        let situations = situations(sample)
        let schema = situations.flatMap { situation in ["_i", "_s"].map { situation.schema.replacing("#", with: $0) } }
        let story = try await Story(schema.joined(separator: "\n"), policies)
        for situation in situations { try await story.write(1, situation.second.replacing("#", with: "_s")) }
        for suffix in ["_i", "_s"] {
            for situation in situations { try await story.write(0, situation.first.replacing("#", with: suffix)) }
        }
        for situation in situations { try await story.write(1, situation.second.replacing("#", with: "_i")) }
        try await story.world.sync(0)
        let outcome = try await story.end()
        var cells: [String] = []
        for situation in situations {
            var sides: [String] = []
            for suffix in ["_i", "_s"] {
                let sql = situation.look.replacing("#", with: suffix)
                let text = try await outcome.store.read { db in try String.fetchOne(db, sql: sql) ?? "NULL" }
                sides.append(text.replacing("\n", with: "¶") + lost(outcome, situation, suffix))
            }
            cells.append(sides[0] == sides[1] ? sides[0] : "later: \(sides[0]); earlier: \(sides[1])")
        }
        return cells
    }

    /// The values of the losing side in the journal.
    private static func lost(_ outcome: Outcome, _ situation: Situation, _ suffix: String) -> String {
        let tables = situation.schema.split(separator: "CREATE TABLE ").compactMap { $0.split(separator: "#").first.map { $0 + suffix } }
        let entries = outcome.journal.filter { entry in tables.contains(Substring(entry.table)) && entry.kind != .renumber }
        let texts = entries.map { entry -> String in
            let values = entry.winner == .incoming ? entry.stored : entry.incoming
            guard let values else { return "the delete" }
            return entry.columns.isEmpty ? "the row" : values.map(text).joined(separator: ", ")
        }
        return texts.isEmpty ? "" : " (lost: \(texts.joined(separator: ", ")))"
    }

    private static func text(_ value: Value) -> String {
        switch value {
        case .null: "NULL"
        case .integer(let integer): String(integer)
        case .real(let real): String(real)
        case .text(let text): (text.string ?? "").replacing("\n", with: "¶")
        case .blob: "a blob"
        }
    }
}
