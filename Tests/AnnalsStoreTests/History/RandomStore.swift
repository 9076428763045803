import Foundation
import SeededRandom

/// Random schemas and random statements on them, as programs write them.
struct RandomStore {
    var random: SeededGenerator
    private(set) var tables: [Table] = []
    private(set) var schema = ""

    struct Table {
        var name: String
        var sql: String
        var keys: [String]
        var columns: [String]
    }

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        tables = [integerKeys(), textKeys(), compoundKeys(), children(), keyless()]
        schema = tables.map(\.sql).joined() + triggers()
    }

    // MARK: Schema

    private mutating func integerKeys() -> Table {
        let autoincrement = random.chance(30) ? " AUTOINCREMENT" : ""
        let unique = random.one(of: ["", " UNIQUE", " UNIQUE ON CONFLICT REPLACE", " UNIQUE COLLATE NOCASE"])
        return Table(
            name: "item",
            sql: "CREATE TABLE item(id INTEGER PRIMARY KEY\(autoincrement), name TEXT\(unique), price REAL, any, g AS (id * 2));",
            keys: ["id"], columns: ["id", "name", "price", "any"])
    }

    private mutating func textKeys() -> Table {
        let collation = random.one(of: ["", " COLLATE NOCASE", " COLLATE RTRIM"])
        let index = random.one(of: ["", "CREATE UNIQUE INDEX tag_n ON tag(n);", "CREATE UNIQUE INDEX tag_p ON tag(n) WHERE n > 2;"])
        return Table(
            name: "tag", sql: "CREATE TABLE tag(k TEXT\(collation) PRIMARY KEY NOT NULL, n INT, note TEXT);\(index)", keys: ["k"],
            columns: ["k", "n", "note"])
    }

    private mutating func compoundKeys() -> Table {
        let rowid = random.one(of: ["", " WITHOUT ROWID", " STRICT, WITHOUT ROWID"])
        let unique = random.one(of: ["", ", UNIQUE(c, b)"])
        return Table(
            name: "slot", sql: "CREATE TABLE slot(b INT NOT NULL, a TEXT NOT NULL, c ANY, d BLOB, PRIMARY KEY(a, b)\(unique))\(rowid);",
            keys: ["a", "b"], columns: ["b", "a", "c", "d"])
    }

    private mutating func children() -> Table {
        let action = random.one(of: ["", " ON DELETE CASCADE ON UPDATE CASCADE", " ON DELETE SET NULL", " ON DELETE SET DEFAULT"])
        return Table(
            name: "line", sql: "CREATE TABLE line(id INTEGER PRIMARY KEY, item INT DEFAULT 1 REFERENCES item(id)\(action), text);",
            keys: ["id"], columns: ["id", "item", "text"])
    }

    private func keyless() -> Table {
        Table(name: "loose", sql: "CREATE TABLE loose(a, b TEXT, c, PRIMARY KEY(a, b));", keys: ["a", "b"], columns: ["a", "b", "c"])
    }

    /// A program's own triggers, which write tracked tables.
    private mutating func triggers() -> String {
        guard random.chance(50) else { return "" }
        return random.one(of: [
            "CREATE TRIGGER own1 AFTER INSERT ON item BEGIN UPDATE item SET any = 'seen' WHERE id = NEW.id; END;",
            "CREATE TRIGGER own2 AFTER UPDATE OF price ON item BEGIN INSERT INTO tag VALUES('p' || NEW.id || random() % 9, 1, 'x') "
                + "ON CONFLICT DO NOTHING; END;",
            "CREATE TRIGGER own3 BEFORE DELETE ON tag BEGIN DELETE FROM slot WHERE a = OLD.k; END;",
        ])
    }

    // MARK: Statements

    /// One to five statements. Some of them may fail. The others are committed together.
    mutating func statements() -> [String] {
        (0..<Int.random(in: 1...5, using: &random)).map { _ in statement() }
    }

    private mutating func statement() -> String {
        let table = random.one(of: tables)
        switch Int.random(in: 0..<10, using: &random) {
        case 0...3:
            let verb = random.one(of: ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"])
            let rows = (0..<Int.random(in: 1...4, using: &random)).map { _ in row(table) }
            return "\(verb) INTO \(table.name)(\(table.columns.joined(separator: ", "))) VALUES \(rows.joined(separator: ", "))"
        case 4:
            let column = table.columns.last ?? ""
            return """
                INSERT INTO \(table.name)(\(table.columns.joined(separator: ", "))) VALUES \(row(table)) ON CONFLICT DO \
                \(random.one(of: ["NOTHING", "UPDATE SET \(column) = excluded.\(column)"]))
                """
        case 5...7:
            let column = random.one(of: table.columns)
            let verb = random.one(of: ["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"])
            return "\(verb) \(table.name) SET \(column) = \(value(table, column)) WHERE \(condition(table))"
        case 8:
            // Every key moves to the next key.
            let key = random.one(of: table.keys)
            return random.one(of: [
                "UPDATE \(table.name) SET \(key) = \(key) || 'x' WHERE \(condition(table))",
                "UPDATE OR REPLACE \(table.name) SET \(key) = \(key) + 1 WHERE \(condition(table))",
                "UPDATE \(table.name) SET \(key) = -\(key)",
            ])
        default:
            return "DELETE FROM \(table.name) WHERE \(condition(table))"
        }
    }

    private mutating func condition(_ table: Table) -> String {
        if random.chance(5) { return "1" }
        let column = random.one(of: table.columns)
        return "\(column) \(random.one(of: ["=", "IS", "<", ">"])) \(value(table, column))"
    }

    private mutating func row(_ table: Table) -> String {
        "(" + table.columns.map { value(table, $0) }.joined(separator: ", ") + ")"
    }

    /// Few different values, so that rows conflict.
    private mutating func value(_ table: Table, _ column: String) -> String {
        let small = String(Int.random(in: 1...6, using: &random))
        switch column {
        case "id", "item",
            "b" where table.name == "slot":
            return small
        case "k", "name": return random.one(of: ["'a'", "'A'", "'b'", "'b '", "'ß'", "''", "NULL", "'\(small)'"])
        case "a" where table.name == "slot": return random.one(of: ["'x'", "'X'", "'y'", "'\(small)'"])
        default:
            return random.one(of: [
                "NULL", small, "\(small).5", "\(small).0", "'text \(small)'", "x'00ff\(small)0'", "''", "x''", "CAST(x'ff41' AS TEXT)",
                "9007199254740993", "-1e999", "1e999", "'a' || char(0) || 'b'", "-0.0", "'\(small)'",
            ])
        }
    }
}
