/// Random schemas with every kind of key, UNIQUE, reference, CHECK and triggers that write other rows. Their transactions often conflict.
struct CommutingSchema {
    struct Column {
        var name: String
        var isText: Bool
        /// Its values may be NULL.
        var isNullable = true
        /// A text column that refers to numbers.
        var holdsNumbers = false
        /// A reference. About half of its values are NULL.
        var isReference = false
    }

    struct Table {
        var name: String
        var keys: [Column]
        var columns: [Column]
        var unique: String
        var all: [Column] { keys + columns }
    }

    private(set) var tables: [Table] = []
    private(set) var sql = ""
    private static let actions = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"]

    init(_ random: inout some RandomNumberGenerator) {
        for number in 0..<4 { addTable(number, &random) }
        guard Int.random(in: 0...2, using: &random) == 0 else { return }
        for number in 0..<Int.random(in: 1...3, using: &random) { addTrigger(number, &random) }
    }

    // MARK: Tables

    private mutating func addTable(_ number: Int, _ random: inout some RandomNumberGenerator) {
        let name = "t\(number)"
        var parts: [String] = []
        var keys: [Column]
        var constraints: [String] = []
        let isStrict = Int.random(in: 0...4, using: &random) == 0
        switch Int.random(in: 0...4, using: &random) {
        case 0, 1:
            keys = [Column(name: "k", isText: false)]
            let references = number > 0 && Int.random(in: 0...3, using: &random) == 0 ? reference(to: tables[0], &random) : nil
            parts.append("k INTEGER PRIMARY KEY" + (references ?? ""))
        case 2, 3:
            keys = [Column(name: "k", isText: true, isNullable: false)]
            parts.append("k TEXT NOT NULL PRIMARY KEY" + Self.collation(&random))
        default:
            keys = [Column(name: "k", isText: false, isNullable: false), Column(name: "l", isText: true, isNullable: false)]
            parts += ["k INTEGER NOT NULL", "l TEXT NOT NULL"]
            constraints.append("PRIMARY KEY (\(Bool.random(using: &random) ? "k, l" : "l, k"))")
        }
        var columns = [Column(name: "v", isText: true), Column(name: "n", isText: false)]
        parts += [
            "v TEXT",
            ["n INTEGER", "n INTEGER CHECK (n < 4)", "n INTEGER CHECK (n IS NULL OR v IS NOT NULL)"].randomElement(using: &random) ?? "",
        ]
        let (unique, index) = addUnique(name, &parts, &constraints, &columns, &random)
        addReferences(name, keys, unique, &parts, &constraints, &columns, &random)
        let rowid = keys[0].isText || keys.count > 1 ? Bool.random(using: &random) : false
        let options = (isStrict ? ["STRICT"] : []) + (rowid ? ["WITHOUT ROWID"] : [])
        sql += "CREATE TABLE \(name) (\((parts + constraints).joined(separator: ", "))) \(options.joined(separator: ", "));\n" + index
        tables.append(Table(name: name, keys: keys, columns: columns, unique: unique))
    }

    private static func collation(_ random: inout some RandomNumberGenerator) -> String {
        ["", "", " COLLATE NOCASE", " COLLATE RTRIM"].randomElement(using: &random) ?? ""
    }

    /// Returns the unique column, and statements that come after those of the table.
    private func addUnique(
        _ name: String, _ parts: inout [String], _ constraints: inout [String], _ columns: inout [Column],
        _ random: inout some RandomNumberGenerator
    ) -> (String, String) {
        columns.append(Column(name: "u", isText: true))
        switch Int.random(in: 0...6, using: &random) {
        case 0, 1, 2: parts.append("u TEXT UNIQUE" + Self.collation(&random))
        case 3:
            parts.append("u TEXT UNIQUE")
            constraints.append("UNIQUE (u, n)")
        case 4:
            parts.append("u TEXT")
            return ("", "CREATE UNIQUE INDEX \(name)_p ON \(name) (u) WHERE n > 1;\n")
        case 5:
            parts.append("u TEXT")
            return ("", "CREATE UNIQUE INDEX \(name)_e ON \(name) (lower(u), ifnull(n, 0) % 2);\n")
        default:
            parts += ["u TEXT", "g TEXT AS (upper(u)) VIRTUAL"]
            return ("", "CREATE UNIQUE INDEX \(name)_g ON \(name) (g);\n")
        }
        return ("u", "")
    }

    private func reference(to parent: Table, column: String? = nil, _ random: inout some RandomNumberGenerator) -> String? {
        guard column != nil || parent.keys.count == 1 else { return nil }
        let delete = Self.actions.randomElement(using: &random) ?? ""
        let update = Self.actions.randomElement(using: &random) ?? ""
        return
            " REFERENCES \(parent.name) (\(column ?? parent.keys[0].name)) ON DELETE \(delete) ON UPDATE \(update) DEFERRABLE INITIALLY DEFERRED"
    }

    private func addReferences(
        _ name: String, _ keys: [Column], _ unique: String, _ parts: inout [String], _ constraints: inout [String],
        _ columns: inout [Column],
        _ random: inout some RandomNumberGenerator
    ) {
        let own = Table(name: name, keys: keys, columns: [], unique: unique)
        for column in ["p", "q"] {
            guard let parent = (tables + [own]).randomElement(using: &random) else { return }
            if parent.keys.count == 2 {
                let action = Self.actions.randomElement(using: &random) ?? ""
                parts += ["\(column) INTEGER", "\(column)l TEXT"]
                constraints.append(
                    "FOREIGN KEY (\(column)l, \(column)) REFERENCES \(parent.name) (l, k) ON DELETE \(action) ON UPDATE CASCADE")
                columns += [Column(name: column, isText: false, isReference: true), Column(name: column + "l", isText: true)]
            } else if !parent.unique.isEmpty, Bool.random(using: &random) {
                parts.append("\(column) TEXT" + (reference(to: parent, column: parent.unique, &random) ?? ""))
                columns.append(Column(name: column, isText: true, isReference: true))
            } else {
                let isText = parent.keys[0].isText || Int.random(in: 0...3, using: &random) == 0
                parts.append(
                    "\(column) \(isText ? "TEXT" : "INTEGER")\(isText ? Self.collation(&random) : "")"
                        + (reference(to: parent, &random) ?? ""))
                columns.append(Column(name: column, isText: isText, holdsNumbers: !parent.keys[0].isText, isReference: true))
            }
        }
    }

    // MARK: Triggers

    /// Writes tracked tables, also its own. Its effects belong to the transaction that fires it.
    private mutating func addTrigger(_ number: Int, _ random: inout some RandomNumberGenerator) {
        guard let table = tables.randomElement(using: &random), let target = tables.randomElement(using: &random) else { return }
        let (event, row) = [("INSERT", "new"), ("UPDATE", "new"), ("UPDATE OF n", "old"), ("DELETE", "old")][
            Int.random(in: 0...3, using: &random)]
        let moment = Bool.random(using: &random) ? "AFTER" : "BEFORE"
        let body =
            switch Int.random(in: 0...3, using: &random) {
            case 0: "UPDATE \(target.name) SET v = \(row).v WHERE n = \(row).n"
            case 1: "UPDATE OR IGNORE \(target.name) SET n = ifnull(n, 0) + 1 WHERE k = \(row).n"
            case 2: "DELETE FROM \(target.name) WHERE u = \(row).u"
            default: insert(&random)
            }
        sql += "CREATE TRIGGER r\(number) \(moment) \(event) ON \(table.name) BEGIN \(body); END;\n"
    }

    // MARK: Statements

    /// The statements of one transaction of a writer. Many of them are refused, which is intended.
    func transaction(_ random: inout some RandomNumberGenerator) -> [String] {
        (0..<Int.random(in: 1...3, using: &random)).map { _ in statement(&random) }
    }

    func insert(_ random: inout some RandomNumberGenerator, verb: String = "INSERT OR IGNORE") -> String {
        guard let table = tables.randomElement(using: &random) else { return "" }
        let names = table.all.map(\.name).joined(separator: ", ")
        let values = table.all.map { value($0, &random) }.joined(separator: ", ")
        return "\(verb) INTO \(table.name) (\(names)) VALUES (\(values))"
    }

    private func statement(_ random: inout some RandomNumberGenerator) -> String {
        guard let table = tables.randomElement(using: &random), let column = table.columns.randomElement(using: &random) else { return "" }
        let row = table.keys.map { "\($0.name) = \(value($0, &random, nulls: false))" }.joined(separator: " AND ")
        switch Int.random(in: 0...9, using: &random) {
        case 0...2: return insert(&random, verb: "INSERT")
        case 3: return insert(&random, verb: "REPLACE")
        case 4...6: return "UPDATE \(table.name) SET \(column.name) = \(value(column, &random)) WHERE \(row)"
        case 7:
            let key = table.keys[0]
            return "UPDATE \(table.name) SET \(key.name) = \(value(key, &random, nulls: false)) WHERE \(row)"
        default: return "DELETE FROM \(table.name) WHERE \(row)"
        }
    }

    /// Few values, in several spellings.
    private func value(_ column: Column, _ random: inout some RandomNumberGenerator, nulls: Bool = true) -> String {
        if nulls, column.isNullable, Int.random(in: 0...(column.isReference ? 1 : 3), using: &random) == 0 { return "NULL" }
        if column.holdsNumbers { return "'\(Int.random(in: 1...5, using: &random))'" }
        if !column.isText { return String(Int.random(in: 1...5, using: &random)) }
        return ["'a'", "'A'", "'b'", "'b '", "'c'", "'2'"].randomElement(using: &random) ?? "NULL"
    }
}
