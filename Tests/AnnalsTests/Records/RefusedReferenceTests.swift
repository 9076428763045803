import Annals
import Testing

/// SQLite says only that a foreign key failed. The error of a write also says which.
@Suite("A foreign key that refuses a plain write")
struct RefusedReferenceTests {
    private struct Invoice: Codable, ActiveRecord {
        static let databaseTableName = "invoice"
        var id: Int64?
        var customer: Int64
    }

    private struct Customer: TableRecord {
        static let databaseTableName = "customer"
    }

    private func store(_ reference: String = "REFERENCES customer(id)", isTracked: Bool = true) async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE invoice(id INTEGER PRIMARY KEY, customer INTEGER \(reference));
                    INSERT INTO customer VALUES (1, 'Ann'), (2, 'Ben');
                    INSERT INTO invoice VALUES (7, 1), (8, 1);
                    """)
        }
        if isTracked { try await store.track(.all) }
        return store
    }

    private func refused(_ work: () async throws -> Void) async throws -> ConstraintConflict {
        let error = try #require(await #expect(throws: AnnalsError.self) { try await work() })
        #expect(error.code == .constraint && error.message.hasPrefix("FOREIGN KEY constraint failed"))
        guard case .constraints(let refused)? = error.saveError else { throw error }
        return try #require(refused.first)
    }

    private static let declarations = [
        "REFERENCES customer(id)", "REFERENCES customer(id) DEFERRABLE INITIALLY DEFERRED",
        "REFERENCES customer(id) ON DELETE RESTRICT ON UPDATE RESTRICT",
    ]

    @Test("a row without its parent", arguments: declarations)
    func withoutParent(reference: String) async throws {
        let store = try await store(reference)
        func check(_ conflict: ConstraintConflict, key: Int64) {
            #expect(conflict.kind == .foreignKey && conflict.table == "invoice" && conflict.columns == ["customer"])
            #expect(conflict.identifier == PersistentIdentifier(table: "invoice", key: [.integer(key)]) && conflict.name == "customer")
            #expect(conflict.values == ["customer": 99.databaseValue] && conflict.others.isEmpty)
        }
        try await check(refused { try await store.write { db in _ = try Invoice(id: 9, customer: 99).insert(in: db) } }, key: 9)
        try await check(refused { try await store.execute(BatchInsertRequest([Invoice(id: 9, customer: 99)])) }, key: 9)
        let update = BatchUpdateRequest(Invoice.self) {
            [Column("customer").set(to: 99)]
        } where: {
            $0.filter(key: 8)
        }
        try await check(refused { try await store.execute(update) }, key: 8)
        try await check(refused { try store.writeAndWait { db in _ = try Invoice(id: 9, customer: 99).insert(in: db) } }, key: 9)
        // Corrected before the end.
        try await store.write { db in
            guard reference.contains("DEFERRED") else { return }
            try db.execute(sql: "INSERT INTO invoice VALUES (9, 99); UPDATE invoice SET customer = 2 WHERE id = 9")
        }
        #expect(try await store.verify().isEmpty)
    }

    @Test("a parent with rows", arguments: declarations)
    func withChildren(reference: String) async throws {
        let store = try await store(reference)
        func check(_ conflict: ConstraintConflict) {
            #expect(conflict.kind == .foreignKey && conflict.table == "customer" && conflict.columns == ["id"])
            #expect(conflict.identifier == PersistentIdentifier(table: "customer", key: [.integer(1)]) && conflict.name == "invoice")
            #expect(conflict.others.map(\.identifier.key) == [[.integer(7)], [.integer(8)]])
            #expect(conflict.others.first?.snapshot["customer"] == 1.databaseValue)
        }
        try await check(refused { try await store.execute(BatchDeleteRequest(Customer.self)) })
        try await check(refused { try await store.write { db in try db.execute(sql: "DELETE FROM customer WHERE name = 'Ann'") } })
        try await check(refused { try await store.write { db in try db.execute(sql: "UPDATE customer SET id = 5 WHERE id = 1") } })
        #expect(try await store.read { db in try Customer.fetchCount(db) } == 2)
    }

    @Test("without history only the kind is known; an error that the app catches changes nothing")
    func unknown() async throws {
        let untracked = try await refused { [store = try await store(isTracked: false)] in
            try await store.write { db in _ = try Invoice(id: 9, customer: 99).insert(in: db) }
        }
        #expect(untracked.kind == .foreignKey && untracked.columns.isEmpty)
        let store = try await store()
        try await store.write { db in
            #expect(throws: DatabaseError.self) { _ = try Invoice(id: 9, customer: 99).insert(in: db) }
            _ = try Invoice(id: 10, customer: 2).insert(in: db)
        }
        #expect(try await store.read { db in try Invoice.fetchCount(db) } == 3)
    }
}
