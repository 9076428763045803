import AnnalsCore
import AnnalsHistory
import GRDB
import Testing

@testable import AnnalsStore

@Suite("What SQLite refuses is told by a code")
struct StoreErrorTests {
    @Test("A row that a constraint forbids is of code constraint, also where SQLite calls it a mismatch")
    func refusals() async throws {
        let queue = try DatabaseQueue()
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE t(k INTEGER PRIMARY KEY, a INTEGER CHECK (a <> 3)) STRICT")
        }
        let store = try Store(wrapping: queue)
        _ = try await store.track(.all)
        for statement in ["INSERT INTO t VALUES ('x', 1)", "INSERT INTO t VALUES (1, 3)", "INSERT INTO t VALUES (1, 'x')"] {
            let error = await #expect(throws: AnnalsError.self) {
                try await store.write { db in try db.execute(sql: statement) }
            }
            #expect(error?.code == .constraint, "\(statement)")
        }
    }
}
