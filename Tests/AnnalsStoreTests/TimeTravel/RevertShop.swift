import AnnalsCore
import Foundation
import GRDB
import Synchronization

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

/// A tracked file whose writes have authors.
struct RevertShop {
    static let schema = """
        CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT CHECK(name <> 'no'), email TEXT UNIQUE, city TEXT);
        CREATE TABLE invoice(id INTEGER PRIMARY KEY, customer INT REFERENCES customer(id) ON DELETE CASCADE, total);
        INSERT INTO customer VALUES(1, 'Vera', 'v@', 'Lyon'), (2, 'Luis', 'l@', 'Cork');
        INSERT INTO invoice VALUES(1, 1, 5), (2, 1, 6);
        """

    let file: TemporaryFile
    let store: Store

    init(_ schema: String = schema, leavesOutAll: Bool = false) async throws {
        file = try TemporaryFile()
        try file.shell(schema)
        var configuration = Store.Configuration()
        configuration.largeValue = leavesOutAll ? 0 : nil
        store = try Store(path: file.path, configuration: configuration)
        try await store.track(.all)
    }

    func write(_ sql: String) async throws { try await write("Ann", sql) }

    func write(_ author: String, _ sql: String) async throws {
        try await store.write(author: author) { try $0.execute(sql: sql) }
    }

    func rows() async throws -> RowDump { try await store.read { try RowDump($0) } }

    func texts(_ sql: String) async throws -> [String] { try await store.read { try String.fetchAll($0, sql: sql) } }

    func token(_ number: Int64) async throws -> HistoryToken { try await store.token(named: String(number)) }

    /// Runs what must be refused, expects that no row changed, and returns the error.
    func refusal(_ body: () async throws -> Void) async throws -> AnnalsError? {
        let before = try await rows()
        do {
            try await body()
            return nil
        } catch let error as AnnalsError {
            return try await rows() == before ? error : nil
        }
    }
}

/// Collects visited rows as lines.
final class VisitedRows: Sendable {
    private let found = Mutex<[String]>([])
    var lines: [String] { found.withLock { $0 } }

    @Sendable func visit(_ change: HistoryChange) {
        let line = brief(change)
        found.withLock { $0.append(line) }
    }
}
