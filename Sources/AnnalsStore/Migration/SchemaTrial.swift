import AnnalsCore
import GRDB
import GRDBSQLite

/// Reads schema statements that come from elsewhere in an empty database of their own, where nothing of them can run.
///
/// SQLite parses them itself and asks an authorizer about each thing that they would do, before anything is done. So there is no second
/// grammar that could understand a statement otherwise than SQLite does. What is allowed is a table or an index with its columns,
/// constraints and expressions of SQLite's own functions: no query, no other file, no function of a program, and none whose result can
/// be far larger than what it is given. Every expression is compiled; defaults and checks are
/// computed once, under bounds of steps and size, which bound the time of one slow function only loosely.
final class SchemaTrial {
    /// Why a statement is refused.
    struct Refusal: Error {
        var reason: String
    }

    private let connection: OpaquePointer
    private let judge = Judge()

    init() throws {
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(":memory:", &handle, flags, nil) == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw DatabaseError(resultCode: .SQLITE_NOMEM)
        }
        connection = handle
        for (limit, value) in Limits.schemaTrial { sqlite3_limit(handle, limit, value) }
        let judge = Unmanaged.passUnretained(judge).toOpaque()
        sqlite3_progress_handler(
            handle, Limits.schemaTrialStep,
            { context in
                guard let context else { return 1 }
                let judge = Unmanaged<Judge>.fromOpaque(context).takeUnretainedValue()
                judge.steps += 1
                return judge.steps > Limits.schemaTrialSteps ? 1 : 0
            }, judge)
        sqlite3_set_authorizer(
            handle,
            { context, action, first, second, database, _ in
                guard let context else { return SQLITE_DENY }
                let judge = Unmanaged<Judge>.fromOpaque(context).takeUnretainedValue()
                return judge.decide(
                    action, first.map { String(cString: $0) }, second.map { String(cString: $0) }, database.map { String(cString: $0) })
            }, judge)
    }

    deinit {
        sqlite3_close_v2(connection)
    }

    /// Tries a statement of the forms `CREATE TABLE name (…)`, `CREATE [UNIQUE] INDEX name ON table (…)` and
    /// `ALTER TABLE name ADD COLUMN …`. What SQLite itself refuses for another reason is left to who makes it.
    ///
    /// - Throws: `Refusal`.
    func check(_ sql: String) throws {
        let tokens = SQLToken.all(in: Array(sql.utf8))
        guard !tokens.contains(where: { $0.isSymbol(";") }), let form = Form(tokens) else {
            throw Refusal(reason: "it is none of CREATE TABLE name (…), CREATE INDEX name ON table (…) and ALTER TABLE name ADD COLUMN")
        }
        switch form {
        case .index:
            try run(sql, .declaring)
        case .table(let name):
            try run(sql, .declaring)
            try run("INSERT INTO \(SQL.quote(name)) DEFAULT VALUES", .inserting)
        case .column(let definition):
            let text = String(decoding: Array(sql.utf8)[definition], as: UTF8.self)
            judge.tables += 1
            let name = "annals_trial_\(judge.tables)"
            try run("CREATE TABLE \(name) (\(text))", .declaring)
            try run("INSERT INTO \(name) DEFAULT VALUES", .inserting)
        }
    }

    private enum Form {
        case table(String)
        case index
        /// Where the column's definition stands in the text.
        case column(Range<Int>)

        init?(_ tokens: [SQLToken]) {
            func isWord(_ place: Int, _ word: String) -> Bool { tokens.indices.contains(place) && tokens[place].isWord(word) }
            func isSymbol(_ place: Int, _ symbol: String) -> Bool { tokens.indices.contains(place) && tokens[place].isSymbol(symbol) }
            if isWord(0, "CREATE"), isWord(1, "TABLE"), tokens.count > 3, tokens[2].isName, isSymbol(3, "(") {
                self = .table(tokens[2].text)
            } else if isWord(0, "CREATE"), isWord(1, "INDEX") || (isWord(1, "UNIQUE") && isWord(2, "INDEX")) {
                let name = isWord(1, "INDEX") ? 2 : 3
                guard tokens.count > name + 3, tokens[name].isName, isWord(name + 1, "ON"), tokens[name + 2].isName, isSymbol(name + 3, "(")
                else { return nil }
                self = .index
            } else if isWord(0, "ALTER"), isWord(1, "TABLE"), tokens.count > 5, tokens[2].isName, isWord(3, "ADD"), isWord(4, "COLUMN"),
                let last = tokens.last
            {
                self = .column(tokens[5].range.lowerBound..<last.range.upperBound)
            } else {
                return nil
            }
        }
    }

    private func run(_ sql: String, _ phase: Judge.Phase) throws {
        judge.phase = phase
        judge.denied = nil
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        var code = sqlite3_prepare_v2(connection, sql, -1, &statement, nil)
        let error = code == SQLITE_OK ? "" : String(cString: sqlite3_errmsg(connection))
        if code == SQLITE_OK, let statement { code = sqlite3_step(statement) }
        if let denied = judge.denied { throw Refusal(reason: denied) }
        switch code & 0xff {
        case SQLITE_TOOBIG, SQLITE_NOMEM: throw Refusal(reason: "a value of it is too large")
        case SQLITE_INTERRUPT: throw Refusal(reason: "it takes too long")
        case SQLITE_AUTH: throw Refusal(reason: "it does what a declaration must not")
        case SQLITE_ERROR where !Self.isOfThisPlace(error): throw Refusal(reason: error)
        default: return
        }
    }

    /// Whether an error is only of the trial's database, which has neither the space's tables nor a program's collations.
    private static func isOfThisPlace(_ error: String) -> Bool {
        error.isEmpty || ["no such table", "no such collation", "already exists"].contains { error.contains($0) }
    }

    /// What the authorizer knows.
    private final class Judge {
        enum Phase {
            /// A table or an index is made.
            case declaring
            /// A row of defaults is put in.
            case inserting
        }

        var phase = Phase.declaring
        var steps: Int32 = 0
        var tables = 0
        var denied: String?

        func decide(_ action: Int32, _ first: String?, _ second: String?, _ database: String?) -> Int32 {
            let reason = refusal(action, first, second, database)
            if let reason, denied == nil { denied = reason }
            return reason == nil ? SQLITE_OK : SQLITE_DENY
        }

        private func refusal(_ action: Int32, _ first: String?, _ second: String?, _ database: String?) -> String? {
            switch action {
            case SQLITE_CREATE_TABLE, SQLITE_CREATE_INDEX:
                return database == "main" && phase == .declaring ? nil : "it makes something outside of the database"
            case SQLITE_READ, SQLITE_REINDEX: return nil
            case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE:
                let isSchema = ["sqlite_master", "sqlite_schema", "sqlite_sequence"].contains(first ?? "")
                return isSchema || phase == .inserting ? nil : "it writes rows"
            case SQLITE_FUNCTION: return refusal(ofFunction: second?.lowercased() ?? "")
            case SQLITE_SELECT, SQLITE_RECURSIVE: return "it has a query"
            case SQLITE_ATTACH, SQLITE_DETACH: return "it names another file"
            default: return "it does what a declaration must not"
            }
        }

        private func refusal(ofFunction name: String) -> String? {
            if SchemaTrial.functions.contains(name) { return nil }
            if phase == .inserting, SchemaTrial.functionsOfDefaults.contains(name) { return nil }
            return "it calls the function \(name)()"
        }
    }
}

extension SchemaTrial {
    /// SQLite's own deterministic functions whose results are no longer than what they are given, but for a small factor.
    static let functions: Set<String> = [
        "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "coalesce", "cos", "cosh",
        "date",
        "datetime", "degrees", "exp", "floor", "glob", "ifnull", "iif", "instr", "json", "json_array", "json_array_length", "json_extract",
        "json_object", "json_type", "json_valid", "julianday", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2",
        "lower", "ltrim", "max", "min", "mod", "nullif", "octet_length", "pi", "pow", "power", "radians", "round", "rtrim", "sign", "sin",
        "sinh", "sqrt", "strftime", "substr", "substring", "tan", "tanh", "time", "trim", "trunc", "typeof", "unicode", "unixepoch",
        "unlikely", "upper",
    ]

    /// Also in a default, which depends on no row: it is computed here under a bound of its size.
    static let functionsOfDefaults: Set<String> = [
        "char", "concat", "concat_ws", "current_date", "current_time", "current_timestamp", "format", "hex", "printf", "quote", "random",
        "randomblob", "replace", "unhex",
    ]
}
