import Annals
import AnnalsTesting
import Testing

/// The examples of the article Conflicts.
@Suite("The guide to conflicts")
struct ConflictsGuideTests {
    @Test("its policies are followed, and what loses is taken back")
    func examples() async throws {
        let space = try await TestSpace { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, name TEXT, stock INTEGER);
                    CREATE TABLE customer (id TEXT PRIMARY KEY NOT NULL, email TEXT UNIQUE);
                    INSERT INTO item VALUES ('tea', 'Tea', 10);
                    INSERT INTO customer VALUES ('ann', 'ann@example.org');
                    """)
        }
        let store = space[0].store

        try await store.setPolicies([
            PolicySetting(table: "item", column: "stock", aspect: .update, policy: "sum"),
            PolicySetting(table: "item", aspect: .delete, policy: "updateWins"),
            PolicySetting(table: "customer", aspect: .unique, policy: "mergeRows"),
        ])

        try await store.setPolicies([PolicySetting(table: "customer", aspect: .update, policy: "manual")])
        try await space.settle()
        for replica in space.replicas {
            try await replica.store.write { db in
                try db.execute(sql: "UPDATE item SET stock = stock - 3")
                try db.execute(sql: "UPDATE customer SET email = ?", arguments: ["ann@\(replica.name.last ?? "?").example.org"])
            }
            space.clock.advance(.seconds(1))
        }
        try await space.settle()
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT stock FROM item") } == 4)
        #expect(try await store.conflicts(limit: 100, onlyUnresolved: true).count == 1)

        for named in try await store.conflicts(limit: 100, onlyUnresolved: true) {
            let entry = named.conflict.entry
            print(entry.table, entry.key, entry.base as Any, entry.incoming as Any)
            try await store.resolve(named.conflict.id, taking: .incoming, author: "ann")
        }

        try await space.settle()
        #expect(try await space.areEqual())
        #expect(try await store.conflicts(limit: 100, onlyUnresolved: true).isEmpty)
    }
}
