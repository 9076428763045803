import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB
import GRDBSQLite

/// Tests schema statements of other replicas in a separate empty database, where they can do no harm.
///
/// SQLite parses them, and asks an authorizer about each action before it does anything. So there is no second grammar that could
/// understand a statement differently. Allowed are tables and indexes with their columns, constraints and expressions of SQLite's own
/// functions. Refused are queries, other files, functions of a program, and functions with results that can be much larger than their
/// arguments.
///
/// Every expression is compiled. Defaults and generated columns are computed, for one row, because nothing else shows the size of the
/// value that a default makes. So are the CHECK constraints of a new column with a constant default. Any other error that depends on
/// values refuses nothing. SQLite counts its instructions, but one function call is one instruction. So values are short, calls are
/// counted, and functions with a time that grows with the product of two lengths are replaced by fast ones.
package final class SchemaTrial {
    /// The reason why a statement is refused.
    package struct Refusal: Error, Hashable {
        /// The first words of the statement: its kind and the name of its object.
        package var statement: String
        package var reason: String
    }

    /// A structure, because optimized code crashes if it gives a function itself to a task-local value (Swift 6.3).
    package struct Observer: Sendable {
        let begins: @Sendable () -> Void

        package init(begins: @escaping @Sendable () -> Void) {
            self.begins = begins
        }
    }

    /// Called when a trial begins. A test uses it to see which locks are held meanwhile.
    @TaskLocal package static var observer: Observer?

    /// The first refusal among statements of an entry; nil if all of them are declarations.
    ///
    /// - Parameter statements: `SchemaEntry.declarations`.
    /// - Throws: `DatabaseError` if SQLite cannot run the trial.
    package static func refusal(of statements: [String]) throws -> Refusal? {
        observer?.begins()
        let trial = try SchemaTrial()
        do throws(Refusal) {
            for sql in statements { try trial.check(sql) }
            return nil
        } catch {
            return error
        }
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
        for (limit, value) in ReplicaLimits.schemaTrial { sqlite3_limit(handle, limit, value) }
        // The result of a CHECK depends on rows. Checks are compiled when their table is created.
        sqlite3_exec(handle, "PRAGMA ignore_check_constraints = ON", nil, nil, nil)
        for name in ["printf", "format"] {
            sqlite3_create_function_v2(
                handle, name, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nil, Self.format, nil, nil, nil)
        }
        for (name, count) in Self.slowSearches {
            sqlite3_create_function_v2(
                handle, name, count, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nil,
                { context, _, _ in sqlite3_result_int(context, 1) }, nil, nil, nil)
        }
        for (name, count) in Self.slowChanges {
            sqlite3_create_function_v2(
                handle, name, count, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nil,
                { context, _, arguments in sqlite3_result_value(context, arguments?[0]) }, nil, nil, nil)
        }
        // No two values are compared in the trial's tables.
        for name in Collation.ofGRDB { sqlite3_create_collation_v2(handle, name, SQLITE_UTF8, nil, { _, _, _, _, _ in 0 }, nil) }
        let judge = Unmanaged.passUnretained(judge).toOpaque()
        sqlite3_progress_handler(
            handle, ReplicaLimits.schemaTrialStep,
            { context in
                guard let context else { return 1 }
                let judge = Unmanaged<Judge>.fromOpaque(context).takeUnretainedValue()
                judge.steps += 1
                return judge.steps > ReplicaLimits.schemaTrialSteps ? 1 : 0
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

    /// Tests a statement of the forms `CREATE TABLE name (…)`, `CREATE [UNIQUE] INDEX name ON table (…)` and
    /// `ALTER TABLE name ADD COLUMN …`. Other errors of SQLite are not reported here, but when the statement is used.
    package func check(_ sql: String) throws(Refusal) {
        guard sql.utf8.count <= ReplicaLimits.schemaTrialText else {
            throw Refusal(statement: "a statement", reason: "it is longer than \(ReplicaLimits.schemaTrialText >> 10) KiB")
        }
        let tokens = SQLToken.all(in: sql)
        if let reason = reason(against: sql, tokens) { throw Refusal(statement: Self.what(tokens), reason: reason) }
    }

    /// The first words of a statement, up to the first parenthesis: its kind and the name of its object.
    private static func what(_ tokens: [SQLToken]) -> String {
        let words = tokens.prefix(6).prefix { $0.isName }.compactMap(\.name)
        return words.isEmpty ? "a statement that adds nothing to a schema" : words.joined(separator: " ")
    }

    private func reason(against sql: String, _ tokens: [SQLToken]) -> String? {
        guard !tokens.contains(where: { $0.isSymbol(";") }), let form = Form(tokens) else {
            return "it is not CREATE TABLE name (…), CREATE INDEX name ON table (…) or ALTER TABLE name ADD COLUMN"
        }
        switch form {
        case .index:
            return run(sql, .declaring)
        case .table(let name):
            return reason(against: sql, making: name)
        case .column(let definition):
            let text = String(decoding: Array(sql.utf8)[definition], as: UTF8.self)
            judge.tables += 1
            let name = "annals_trial_\(judge.tables)"
            return reason(against: "CREATE TABLE \(name) (\(text))", making: name, checksDefault: tokens.contains { $0.isWord("CHECK") })
        }
    }

    /// SQLite checks the functions of CHECKs and generated columns when it creates the table, but not those of defaults.
    ///
    /// - Parameter checksDefault: Whether a constant default must satisfy the CHECK constraints, because rows that are older than a new
    ///   column have it.
    private func reason(against sql: String, making name: String, checksDefault: Bool = false) -> String? {
        if let reason = run(sql, .declaring) { return reason }
        var defaults: [String] = []
        _ = run("PRAGMA main.table_xinfo(\(SQL.quote(name)))", .asking) { statement in
            if let text = sqlite3_column_text(statement, 4).map({ String(cString: $0) }), text.contains("(") { defaults.append(text) }
        }
        for text in defaults {
            if let reason = run("SELECT (\(text))", .compiling) { return reason }
        }
        let insert = "INSERT INTO \(SQL.quote(name)) DEFAULT VALUES"
        if let reason = run(insert, .inserting) { return reason }
        guard checksDefault, defaults.isEmpty else { return nil }
        _ = run("PRAGMA ignore_check_constraints = OFF", .asking)
        defer { _ = run("PRAGMA ignore_check_constraints = ON", .asking) }
        return run(insert, .inserting)
    }

    private enum Form {
        case table(String)
        case index
        /// The range of the column's definition in the text.
        case column(Range<Int>)

        init?(_ tokens: [SQLToken]) {
            func isWord(_ index: Int, _ word: String) -> Bool { tokens.indices.contains(index) && tokens[index].isWord(word) }
            func isSymbol(_ index: Int, _ symbol: String) -> Bool { tokens.indices.contains(index) && tokens[index].isSymbol(symbol) }
            if isWord(0, "CREATE"), isWord(1, "TABLE"), tokens.count > 3, let name = tokens[2].name, isSymbol(3, "(") {
                self = .table(name)
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

    /// The reason why SQLite or the authorizer refuses a statement; nil if neither does.
    private func run(_ sql: String, _ phase: Judge.Phase, _ row: (OpaquePointer) -> Void = { _ in }) -> String? {
        judge.phase = phase
        judge.selects = 0
        judge.denied = nil
        // SQLite stores the declaration as a value in its own table.
        sqlite3_limit(
            connection, SQLITE_LIMIT_LENGTH, phase == .inserting ? ReplicaLimits.schemaTrialValue : 2 * ReplicaLimits.schemaTrialText)
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        var code = sqlite3_prepare_v2(connection, sql, -1, &statement, nil)
        let error = code == SQLITE_OK ? "" : String(cString: sqlite3_errmsg(connection))
        if code == SQLITE_OK, phase != .compiling, let statement {
            repeat {
                code = sqlite3_step(statement)
                if code == SQLITE_ROW { row(statement) }
            } while code == SQLITE_ROW
        }
        if let denied = judge.denied { return denied }
        switch code & 0xff {
        case SQLITE_TOOBIG, SQLITE_NOMEM: return "a value of it is larger than \(ReplicaLimits.schemaTrialValue >> 10) KiB"
        case SQLITE_INTERRUPT: return "it takes too long"
        case SQLITE_CONSTRAINT where sqlite3_extended_errcode(connection) == SQLITE_CONSTRAINT | 1 << 8:
            return "its default does not satisfy its CHECK constraint"
        case SQLITE_AUTH: return "it does more than declare a table or an index"
        case SQLITE_ERROR where !Self.isOfThisPlace(error): return error
        default: return nil
        }
    }

    /// Whether an error concerns only the trial's database, which does not have the space's tables. An unknown collation is no such
    /// error: SQLite does not look at the rest of the statement then, and a receiver could not create the table.
    private static func isOfThisPlace(_ error: String) -> Bool {
        error.isEmpty || ["no such table", "already exists"].contains { error.contains($0) }
    }

    /// The state and the decisions of the authorizer.
    private final class Judge {
        enum Phase {
            /// A table or an index is created.
            case declaring
            /// A default is compiled as the only value of a query that does not run.
            case compiling
            /// A row of defaults is inserted.
            case inserting
            /// A new table is inspected.
            case asking
        }

        var phase = Phase.declaring
        var steps: Int32 = 0
        var tables = 0
        var calls = 0
        var selects = 0
        var denied: String?

        func decide(_ action: Int32, _ first: String?, _ second: String?, _ database: String?) -> Int32 {
            let reason = refusal(action, first, second, database)
            if let reason, denied == nil { denied = reason }
            return reason == nil ? SQLITE_OK : SQLITE_DENY
        }

        private func refusal(_ action: Int32, _ first: String?, _ second: String?, _ database: String?) -> String? {
            switch action {
            case SQLITE_CREATE_TABLE, SQLITE_CREATE_INDEX:
                return database == "main" && phase == .declaring ? nil : "it creates an object outside of the database"
            case SQLITE_READ, SQLITE_REINDEX: return nil
            case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE:
                let isSchema = ["sqlite_master", "sqlite_schema", "sqlite_sequence"].contains(first ?? "")
                return isSchema || phase == .inserting ? nil : "it writes rows"
            case SQLITE_FUNCTION: return refusal(ofFunction: second?.lowercased() ?? "")
            case SQLITE_SELECT where phase == .compiling && selects == 0:
                selects += 1
                return nil
            case SQLITE_SELECT, SQLITE_RECURSIVE: return "it has a query"
            case SQLITE_PRAGMA where phase == .asking: return nil
            case SQLITE_ATTACH, SQLITE_DETACH: return "it names another file"
            default: return "it does more than declare a table or an index"
            }
        }

        private func refusal(ofFunction name: String) -> String? {
            calls += 1
            guard calls <= ReplicaLimits.schemaTrialCalls else { return "it calls more than \(ReplicaLimits.schemaTrialCalls) functions" }
            if SchemaTrial.functions.contains(name) { return nil }
            if phase == .compiling, SchemaTrial.functionsOfDefaults.contains(name) { return nil }
            return "it calls the function \(name)()"
        }
    }
}

extension SchemaTrial {
    /// Functions with a time that grows with the product of two lengths, and their numbers of arguments. LIKE and GLOB call them. Here
    /// they return 1.
    private static let slowSearches: [(String, Int32)] = [("glob", 2), ("instr", 2), ("like", 2), ("like", 3)]

    /// Here these return their first argument.
    private static let slowChanges: [(String, Int32)] = [("ltrim", 2), ("replace", 3), ("rtrim", 2), ("trim", 2), ("unhex", 2)]

    /// SQLite's printf returns NULL for a result that is too long. Here it returns the format, or an error if the format has a wide field.
    private static let format: @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void = {
        context, count, arguments in
        guard count > 0, let first = arguments?[0], let text = sqlite3_value_text(first).map({ String(cString: $0) }) else {
            return sqlite3_result_null(context)
        }
        let isWide = text.contains("*") || text.split(whereSeparator: { !$0.isWholeNumber }).contains { $0.count > 2 }
        if isWide { return sqlite3_result_error_toobig(context) }
        sqlite3_result_value(context, first)
    }

    /// SQLite's deterministic functions with results that are at most a small factor longer than their arguments.
    static let functions: Set<String> = [
        "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "coalesce", "cos", "cosh",
        "date",
        "datetime", "degrees", "exp", "floor", "glob", "ifnull", "iif", "instr", "json", "json_array", "json_array_length", "json_extract",
        "json_object", "json_type", "json_valid", "julianday", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2",
        "lower", "ltrim", "max", "min", "mod", "nullif", "octet_length", "pi", "pow", "power", "radians", "round", "rtrim", "sign", "sin",
        "sinh", "sqrt", "strftime", "substr", "substring", "tan", "tanh", "time", "trim", "trunc", "typeof", "unicode", "unixepoch",
        "unlikely", "upper",
    ]

    /// Allowed also in defaults. A default depends on no row, so its value is computed here and its size is limited.
    static let functionsOfDefaults: Set<String> = [
        "char", "concat", "concat_ws", "current_date", "current_time", "current_timestamp", "format", "hex", "printf", "quote", "random",
        "randomblob", "replace", "unhex",
    ]
}
