import Annals
import Testing

@Suite("A delete rule")
struct DeleteRuleTests {
    private func store(_ rule: DeleteRule, isRequired: Bool = false) async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "customer") { t in t.primaryKey("id", .integer) }
            try db.create(table: "invoice") { t in
                t.primaryKey("id", .integer)
                t.belongsTo("customer", deleteRule: rule, isRequired: isRequired)
            }
        }
        try await store.track(.all)
        try await store.write { db in try db.execute(sql: "INSERT INTO customer VALUES (1); INSERT INTO invoice VALUES (7, 1)") }
        return store
    }

    private func invoices(_ store: Store) async throws -> [Int64?] {
        try await store.read { db in try Optional<Int64>.fetchAll(db, sql: "SELECT customerId FROM invoice") }
    }

    @Test("nullify, cascade and no action do to those that refer to a row what Core Data's rules do")
    func actions() async throws {
        let expected: [DeleteRule: [Int64?]] = [.nullify: [nil], .cascade: [], .noAction: [1]]
        for (rule, rest) in expected {
            let store = try await store(rule)
            try await store.write(author: "delete") { db in try db.execute(sql: "DELETE FROM customer") }
            #expect(try await invoices(store) == rest, "\(rule)")
            // The effects of the rule are in history, in the transaction of the delete.
            let kinds = try await store.read { db in
                let reader = try HistoryReader(db)
                return try reader.transactions(HistoryRequest().authors("delete")).flatMap { try reader.changes(in: $0) }.map(\.kind)
            }
            #expect(kinds.count == (rule == .noAction ? 1 : 2), "\(rule)")
        }
    }

    @Test("nullify of a required reference refuses the delete")
    func requiredNullify() async throws {
        let store = try await store(.nullify, isRequired: true)
        let error = await #expect(throws: AnnalsError.self) {
            try await store.write { db in try db.execute(sql: "DELETE FROM customer") }
        }
        #expect(error?.code == .constraint)
        #expect(try await invoices(store) == [1])
    }

    @Test("deny is checked at commit: a row goes with what refers to it in any order, and not without")
    func deny() async throws {
        let store = try await store(.deny, isRequired: true)
        let error = await #expect(throws: AnnalsError.self) {
            try await store.write { db in
                try db.execute(sql: "DELETE FROM customer")
                #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM customer") == 0)
            }
        }
        guard case .constraints(let refused)? = error?.saveError else { throw try #require(error) }
        #expect(error?.code == .constraint && refused.first?.kind == .foreignKey)
        #expect(try await invoices(store) == [1])
        try await store.write { db in try db.execute(sql: "DELETE FROM customer; DELETE FROM invoice") }
        #expect(try await invoices(store).isEmpty)
    }

    @Test("deny holds across a sync: a row that another replica refers to meanwhile stays")
    func denyAcrossSync() async throws {
        let space = try await TwoReplicas(
            schema: """
                CREATE TABLE customer (id INTEGER PRIMARY KEY);
                CREATE TABLE invoice (
                    id INTEGER PRIMARY KEY, customerId INTEGER REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED
                );
                INSERT INTO customer VALUES (1);
                """)
        try await space.stores[0].write { db in try db.execute(sql: "INSERT INTO invoice VALUES (7, 1)") }
        try await space.stores[1].write { db in try db.execute(sql: "DELETE FROM customer") }
        try await space.settle()
        for store in space.stores {
            #expect(try await invoices(store) == [1])
            #expect(try await store.foreignKeyViolations().isEmpty)
        }
        let digests = try await (space.stores[0].digest(), space.stores[1].digest())
        #expect(digests.0 == digests.1)
    }

    @Test("of a column is declared like GRDB's own")
    func columns() async throws {
        let store = try Store(inMemory: nil)
        let sql = try await store.write { db in
            try db.create(table: "a") { t in t.primaryKey("id", .integer) }
            try db.create(table: "b") { t in
                t.column("x", .integer).references("a", deleteRule: .deny)
                t.column("y", .integer).references("a", deleteRule: .cascade)
                t.column("z", .integer).references("a", deleteRule: .noAction)
            }
            return try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'b'")
        }
        #expect(
            sql == #"CREATE TABLE "b" ("x" INTEGER REFERENCES "a"("id") DEFERRABLE INITIALLY DEFERRED, "#
                + #""y" INTEGER REFERENCES "a"("id") ON DELETE CASCADE, "z" INTEGER)"#)
    }
}
