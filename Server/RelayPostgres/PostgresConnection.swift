internal import AnnalsCore
internal import CPostgres
internal import Foundation
internal import RelayLog

/// A connection to PostgreSQL through libpq's blocking calls. Only one thread at a time can use it.
///
/// Statements are prepared once. A statement without rows is only sent; its result is read with the next statement that
/// returns rows, or with the commit (libpq's pipeline mode). So a group of pushes needs a few round trips, instead of
/// three for each push.
///
/// The connection is opened at the first use, and again after it was lost.
final class PostgresConnection: LogConnection {
    private let url: String
    private var connection: OpaquePointer?
    private var statements: [Statement: String] = [:]
    private var statementCount = 0
    /// Prepared since the last results were read, so the preparation may have failed.
    private var unconfirmed: [Statement] = []
    /// The number of sent statements with unread results.
    private var unread = 0
    private var isInTransaction = false
    /// A statement of the transaction failed: the server would treat COMMIT as ROLLBACK.
    private var hasFailed = false

    /// The key includes the types of the parameters, because PostgreSQL fixes them when it prepares a statement.
    private struct Statement: Hashable {
        var sql: String
        var types: [Oid]
    }

    init(url: String) {
        self.url = url
    }

    deinit { disconnect() }

    func disconnect() {
        PQfinish(connection)
        connection = nil
        statements = [:]
        unconfirmed = []
        unread = 0
        isInTransaction = false
    }

    var lockingClause: String { " FOR UPDATE" }

    /// The socket, for a listener that waits for notifications; nil without a connection.
    var socket: Int32? { connection.map(PQsocket) }

    // MARK: Transactions

    func transaction<T>(_ body: () throws -> T) throws -> T {
        try transaction(beginning: "BEGIN", body)
    }

    /// All reads see the same state.
    func snapshot<T>(_ body: () throws -> T) throws -> T {
        try transaction(beginning: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", body)
    }

    private func transaction<T>(beginning: String, _ body: () throws -> T) throws -> T {
        // Only a bug of this program can nest transactions; no request and no data can cause it.
        precondition(!isInTransaction, "transactions do not nest")
        do {
            try send(beginning, [])
            (isInTransaction, hasFailed) = (true, false)
            let result = try body()
            if hasFailed { throw PostgresError(state: "25P02", message: "a statement of the transaction failed") }
            try send("COMMIT", [])
            try finishPipeline()
            isInTransaction = false
            return result
        } catch {
            rollBack(after: error)
            throw error
        }
    }

    private func rollBack(after error: any Error) {
        isInTransaction = false
        if (error as? PostgresError)?.isLostConnection == true { return disconnect() }
        do {
            // Reads the results of the failed pipeline first.
            try? finishPipeline()
            try send("ROLLBACK", [])
            try finishPipeline()
        } catch {
            disconnect()
        }
    }

    func continueNumbering(_ column: String, of table: String, after last: Int64) throws {
        try execute("ALTER TABLE \(table) ALTER COLUMN \(column) RESTART WITH \(last + 1)", [])
    }

    // MARK: Heads

    /// A channel belongs to the whole database, but the relay's tables belong to one schema.
    static let channel = "SELECT 'annals_' || substr(md5(current_schema()), 1, 16)"

    func announce(_ head: Position, of space: SpaceName) throws {
        try execute("SELECT pg_notify((\(Self.channel)), ?1)", ["\(space) \(head.rawValue)"])
    }

    /// Starts to receive announcements.
    func listen() throws {
        guard let channel = try row(Self.channel, [])?.text(0) else { return }
        try execute("LISTEN \(channel)", [])
    }

    // MARK: Statements

    func execute(_ sql: String, _ arguments: [any Storable]) throws {
        try send(sql, arguments)
        // Outside a transaction no later call would read the result.
        if !isInTransaction { try finishPipeline() }
    }

    func rows(_ sql: String, _ arguments: [any Storable]) throws -> [LogRow] {
        try send(sql, arguments)
        let unreadBefore = unread - 1
        try synchronize()
        var rows: [LogRow] = []
        try readAnswers(skipping: unreadBefore) { rows = try Self.rows(of: $0) }
        return rows
    }

    private func send(_ sql: String, _ arguments: [any Storable]) throws {
        let connection = try open()
        let values = arguments.map(\.stored)
        let name = try prepared(Statement(sql: sql, types: values.map(Self.type(of:))), connection)
        let sent = Self.withParameters(values) { pointers, lengths, formats in
            PQsendQueryPrepared(connection, name, Int32(values.count), pointers, lengths, formats, 1)
        }
        guard sent == 1 else { throw failure(connection) }
        unread += 1
    }

    private func prepared(_ statement: Statement, _ connection: OpaquePointer) throws -> String {
        if let name = statements[statement] { return name }
        statementCount += 1
        let name = "annals_\(statementCount)"
        let sql = statement.sql.replacing(#/\?(\d+)/#) { "$\($0.1)" }
        guard PQsendPrepare(connection, name, sql, Int32(statement.types.count), statement.types) == 1 else { throw failure(connection) }
        unread += 1
        statements[statement] = name
        unconfirmed.append(statement)
        return name
    }

    // MARK: Answers

    private func synchronize() throws {
        guard let connection, PQpipelineSync(connection) == 1 else { throw failure(connection) }
    }

    private func finishPipeline() throws {
        guard unread > 0 else { return }
        try synchronize()
        try readAnswers(skipping: unread) { _ in }
    }

    /// Reads all results up to the last synchronization. It throws the first failure after all are read; the server
    /// does not run the statements after a failed one.
    ///
    /// - Parameter count: the number of first results to ignore.
    private func readAnswers(skipping count: Int, _ visit: (OpaquePointer) throws -> Void) throws {
        guard let connection else { throw PostgresError(state: "", message: "the connection is closed") }
        var place = 0
        var failure: (any Error)?
        while true {
            guard let result = PQgetResult(connection) else {
                // The end of one statement's result.
                place += 1
                guard PQstatus(connection) == CONNECTION_OK, place <= unread else { throw self.failure(connection) }
                continue
            }
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_PIPELINE_SYNC:
                unread = 0
                if let failure { throw fail(failure) }
                unconfirmed = []
                return
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
                if place >= count { do { try visit(result) } catch { failure = failure ?? error } }
            case PGRES_PIPELINE_ABORTED:
                continue
            default:
                let error = Self.error(result, connection)
                if error.isLostConnection || PQstatus(connection) != CONNECTION_OK { throw error }
                failure = failure ?? error
            }
        }
    }

    private func fail(_ failure: any Error) -> any Error {
        hasFailed = true
        for statement in unconfirmed { statements[statement] = nil }
        unconfirmed = []
        return failure
    }

    // MARK: Notifications

    /// Reads the received notifications without waiting. Throws if the connection is lost.
    func notifications() throws -> [String] {
        let connection = try open()
        guard PQconsumeInput(connection) == 1 else { throw failure(connection) }
        var payloads: [String] = []
        while let notification = PQnotifies(connection) {
            payloads.append(String(cString: notification.pointee.extra))
            PQfreemem(notification)
        }
        return payloads
    }

    // MARK: The connection

    private func open() throws -> OpaquePointer {
        if let connection { return connection }
        let opened = Self.connect(url)
        guard let opened, PQstatus(opened) == CONNECTION_OK else {
            defer { PQfinish(opened) }
            throw PostgresError(state: "", message: Self.firstLine(opened.flatMap(PQerrorMessage)) ?? "not enough memory for a connection")
        }
        // Notices, such as that a table exists, are not printed.
        PQsetNoticeProcessor(opened, { _, _ in }, nil)
        PQenterPipelineMode(opened)
        connection = opened
        return opened
    }

    /// The URL and libpq's environment variables override these settings.
    static func settings(_ url: String, _ environment: [String: String]) -> [(name: String, value: String)] {
        var settings = [
            ("fallback_application_name", "annals relay"),
            // Detects a dead server within a minute, also while statements run.
            ("keepalives_idle", "30"), ("keepalives_interval", "10"), ("keepalives_count", "3"), ("tcp_user_timeout", "30000"),
            ("dbname", url), ("client_encoding", "UTF8"),
        ]
        if environment["PGCONNECT_TIMEOUT"] == nil { settings.insert(("connect_timeout", "10"), at: 0) }
        return settings
    }

    private static func connect(_ url: String) -> OpaquePointer? {
        let settings = settings(url, ProcessInfo.processInfo.environment)
        let names = settings.map { strdup($0.0) } + [nil]
        let values = settings.map { strdup($0.1) } + [nil]
        defer { for text in names + values { free(text) } }
        return PQconnectdbParams(names.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 1)
    }

    private func failure(_ connection: OpaquePointer?) -> PostgresError {
        PostgresError(state: "", message: Self.firstLine(connection.flatMap(PQerrorMessage)) ?? "the connection is lost")
    }

    private static func error(_ result: OpaquePointer?, _ connection: OpaquePointer) -> PostgresError {
        let field = { (field: Character) in
            PQresultErrorField(result, Int32(field.asciiValue ?? 0)).map { String(cString: $0) }
        }
        return PostgresError(
            state: field("C") ?? "", message: field("M") ?? firstLine(PQerrorMessage(connection)) ?? "the server gave no reason")
    }

    private static func firstLine(_ text: UnsafeMutablePointer<CChar>?) -> String? {
        text.flatMap { String(cString: $0).split(separator: "\n").first.map(String.init) }
    }
}
