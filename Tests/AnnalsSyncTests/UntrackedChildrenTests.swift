import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// Tables that a program created after the store joined, and that refer to tracked ones, like each new Django model.
@Suite struct UntrackedChildrenTests {
    private static let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO p VALUES(1, 'one'), (2, 'two');"

    /// Two replicas. The second does not track all tables, and has a table that refers to p.
    private func world(_ child: String) async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, child)
        return world
    }

    @Test func `where all tables are tracked, new ones are too`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .take)
        try world.outside(0, "CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER NOT NULL REFERENCES p(id)); INSERT INTO c VALUES(1, 2)")
        try world.outside(0, "CREATE TABLE _alembic_tmp_p(id INTEGER PRIMARY KEY); CREATE TABLE django_migrations(id INTEGER PRIMARY KEY)")
        try await world.settle()
        #expect(try await world.stores[0].status().tracked == ["c", "p"])
        #expect(try await world.rows(1, "SELECT pid FROM c") == [[2.databaseValue]])
        // Renumbering changes it, like any other row.
        try world.outside(0, "INSERT INTO p VALUES(3, 'here'); INSERT INTO c VALUES(2, 3)")
        try world.outside(1, "INSERT INTO p VALUES(3, 'there')")
        try await world.sync(1)
        try await world.settle()
        for index in [0, 1] {
            #expect(try await world.rows(index, "SELECT name FROM c JOIN p ON p.id = pid WHERE c.id = 2") == [["here".databaseValue]])
        }
    }

    @Test func `in a clone new tables are not tracked, and named`() async throws {
        let world = try await world("CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p(id)); INSERT INTO c VALUES(1, 2)")
        try await world.settle()
        #expect(try await world.stores[1].status().tracked == ["p"])
        let store = world.stores[1]
        let tables = try await store.untrackedReferences().map(\.table)
        #expect(tables == ["c"])
        let references = try await store.untrackedReferences()
        #expect(references.map(\.parent) == ["p"])
        #expect(references.map(\.columns) == [["pid"]] && references.map(\.parentColumns) == [["id"]])
        #expect(try await world.stores[1].status().untrackedReferences == references)
    }

    @Test func `rows that are not tracked follow a parent that gets another key`() async throws {
        let world = try await world("CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p(id))")
        try world.outside(1, "INSERT INTO p VALUES(3, 'here'), (4, 'here too'); INSERT INTO c VALUES(1, 3), (2, 4), (3, 1)")
        try world.outside(0, "INSERT INTO p VALUES(3, 'there')")
        try await world.sync(0)
        try await world.settle()
        let sql = "SELECT c.id, name FROM c JOIN p ON p.id = pid ORDER BY c.id"
        let expected: [[DatabaseValue]] = [
            [1.databaseValue, "here".databaseValue], [2.databaseValue, "here too".databaseValue], [3.databaseValue, "one".databaseValue],
        ]
        #expect(try await world.rows(1, sql) == expected)
        #expect(try await world.rows(0, "SELECT count(*) FROM p") == [[5.databaseValue]])
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(
        arguments: [
            ("ON DELETE CASCADE", [[1]]), ("ON DELETE SET NULL", [[1], [nil]]),
        ] as [(String, [[Int?]])])
    func `rows that are not tracked do what their foreign key declares`(_ action: String, _ left: [[Int?]]) async throws {
        let world = try await world(
            "CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p(id) \(action)); INSERT INTO c VALUES(1, 1), (2, 2)")
        try world.outside(0, "DELETE FROM p WHERE id = 2")
        try await world.settle()
        #expect(try await world.rows(1, "SELECT pid FROM c ORDER BY id") == left.map { $0.map(\.databaseValue) })
        #expect(try await world.stores[1].verify() == [])
    }

    @Test func `a renumbered key is followed whatever the foreign key declares for changes`() async throws {
        let world = try await world("CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p(id) ON UPDATE SET NULL)")
        try world.outside(1, "INSERT INTO p VALUES(3, 'here'); INSERT INTO c VALUES(1, 3)")
        try world.outside(0, "INSERT INTO p VALUES(3, 'there')")
        try await world.sync(0)
        try await world.settle()
        #expect(try await world.rows(1, "SELECT name FROM c JOIN p ON p.id = pid") == [["here".databaseValue]])
    }

    /// The key of the parent changes elsewhere, and arrives as an update.
    @Test(
        arguments: [
            ("pid INTEGER REFERENCES p(id)", [77, 2]), ("pid INTEGER REFERENCES p(id) ON UPDATE CASCADE", [77, 2]),
            ("pid INTEGER REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE", [77, 2]),
            ("pid INTEGER REFERENCES p(id) ON DELETE SET NULL ON UPDATE CASCADE", [77, 2]),
            ("pid INTEGER REFERENCES p(id) ON DELETE CASCADE", [77, 2]), ("pid INTEGER REFERENCES p(id) ON DELETE SET NULL", [77, 2]),
            ("pid INTEGER REFERENCES p(id) ON UPDATE SET NULL", [nil, 2]),
            ("pid INTEGER PRIMARY KEY REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE", [77, 2]),
        ] as [(String, [Int?])])
    func `rows that are not tracked follow a key that another replica changed`(_ column: String, _ expected: [Int?]) async throws {
        let world = try await world("CREATE TABLE c(note TEXT, \(column)); INSERT INTO c VALUES('a', 1), ('b', 2)")
        try world.outside(0, "UPDATE p SET id = 77 WHERE id = 1")
        try await world.settle()
        #expect(try await world.rows(1, "SELECT pid FROM c ORDER BY note") == expected.map { [$0.databaseValue] })
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(
        arguments: [
            // Two keys are exchanged, in one transaction and in three.
            ("UPDATE p SET id = -1 WHERE id = 1; UPDATE p SET id = 1 WHERE id = 2; UPDATE p SET id = 2 WHERE id = -1", false),
            ("UPDATE p SET id = -1 WHERE id = 1;UPDATE p SET id = 1 WHERE id = 2;UPDATE p SET id = 2 WHERE id = -1", true),
            // A key that another row had before, and a row that is new there.
            ("UPDATE p SET id = 3 WHERE id = 1;UPDATE p SET id = 1 WHERE id = 2;INSERT INTO p VALUES(2, 'new')", true),
            ("UPDATE p SET id = 3 WHERE id = 2;INSERT INTO p VALUES(2, 'new');UPDATE p SET id = 9 WHERE name = 'new'", true),
            ("UPDATE p SET id = 3 WHERE id = 1;UPDATE p SET id = 4 WHERE id = 3;UPDATE p SET id = 1 WHERE id = 4", true),
        ])
    func `rows that are not tracked follow their own parent through several changes`(_ sql: String, _ eachByItself: Bool) async throws {
        let world = try await world("CREATE TABLE c(name TEXT, pid INTEGER REFERENCES p(id)); INSERT INTO c VALUES('one', 1), ('two', 2)")
        for part in eachByItself ? sql.split(separator: ";").map(String.init) : [sql] {
            try world.outside(0, part)
            try await world.sync(0)
        }
        try await world.settle()
        let parents = "SELECT c.name, p.name FROM c JOIN p ON p.id = pid ORDER BY 1"
        let expected = [["one", "one"], ["two", "two"]].map { $0.map(\.databaseValue) }
        #expect(try await world.rows(1, parents) == expected)
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(
        arguments: [
            "UPDATE p SET id = -1 WHERE id = 1; UPDATE p SET id = 1 WHERE id = 2; UPDATE p SET id = 2 WHERE id = -1",
            "UPDATE p SET id = 3 WHERE id = 2; UPDATE p SET id = 2 WHERE id = 1",
        ])
    func `rows whose own key is the reference exchange it with their parents`(_ sql: String) async throws {
        let world = try await world(
            """
            CREATE TABLE c(pid INTEGER PRIMARY KEY REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE, name TEXT, n AS (pid + 1));
            INSERT INTO c VALUES(1, 'one'), (2, 'two')
            """)
        try world.outside(0, sql)
        try await world.settle()
        let parents = "SELECT c.name, p.name FROM c JOIN p ON p.id = pid ORDER BY 1"
        #expect(try await world.rows(1, parents) == [["one", "one"], ["two", "two"]].map { $0.map(\.databaseValue) })
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(arguments: ["UPDATE p SET id = 5 WHERE id = 1", "UPDATE p SET name = 'eins' WHERE id = 1", "INSERT INTO p VALUES(77, 'here')"])
    func `rows that are not tracked follow a changed key also if unsent work is put after it`(_ own: String) async throws {
        let world = try await world(
            "CREATE TABLE c(note TEXT, pid INTEGER REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE); INSERT INTO c VALUES('a', 1), ('b', 2)"
        )
        try world.outside(0, "UPDATE p SET id = 77 WHERE id = 1")
        try await world.sync(0)
        try world.outside(1, own)
        try await world.settle()
        let left = try await world.rows(1, "SELECT note, p.name IN ('one', 'eins'), p.name FROM c JOIN p ON p.id = pid ORDER BY note")
        #expect(left.count == 2 && left[0][1] == 1.databaseValue && left[1][2] == "two".databaseValue, "\(left)")
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(
        arguments: [
            "REFERENCES p(id)", "REFERENCES p(id) ON DELETE RESTRICT", "NOT NULL REFERENCES p(id) ON DELETE SET NULL",
            "REFERENCES p(id) ON DELETE CASCADE); CREATE TABLE d(id INTEGER PRIMARY KEY, cid REFERENCES c(id)",
        ])
    func `a delete that nothing can be done about is refused by name, until the table is tracked`(_ reference: String) async throws {
        let world = try await world("CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER \(reference)); INSERT INTO c VALUES(1, 1), (2, 2)")
        try world.outside(0, "DELETE FROM p WHERE id = 2")
        try await world.sync(0)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.code == .constraint && error?.message.contains("c is not tracked") == true, "\(String(describing: error))")
        #expect(try await world.rows(1, "SELECT count(*) FROM p") == [[2.databaseValue]])
        _ = try await world.stores[1].track(.all)
        try world.reopen(0, newSchemas: .take)
        try await world.settle()
        #expect(try await world.stores[1].digest() == world.stores[0].digest())
        for store in world.stores { #expect(try await store.verify() == []) }
    }

    @Test func `they are found as the parent compares its values`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE);
                INSERT INTO p VALUES(1, 'One'), (2, 'Two'), (3, 'Three');
                """)
        try world.outside(
            1,
            """
            CREATE TABLE c(id INTEGER PRIMARY KEY, pid REFERENCES p(id) ON DELETE SET NULL, name REFERENCES p(name) ON DELETE SET NULL);
            INSERT INTO c VALUES(1, '2', 'TWO'), (2, 2.0, 'three'), (3, 1, 'oNE'), (4, NULL, NULL);
            """)
        try world.outside(0, "DELETE FROM p WHERE id = 2")
        try await world.settle()
        let rows = try await world.rows(1, "SELECT id FROM c WHERE pid IS NULL AND name IS NULL ORDER BY id")
        #expect(rows == [[1.databaseValue], [4.databaseValue]])
        #expect(
            try await world.rows(1, "SELECT name FROM c WHERE id IN (2, 3) ORDER BY id") == [
                ["three".databaseValue], ["oNE".databaseValue],
            ])
        #expect(try await world.stores[1].verify() == [])
    }

    /// Rows that had no parent before are left to the program.
    @Test func `rows that had no parent before refuse nothing`() async throws {
        let world = try await world(
            "CREATE TABLE c(id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p(id)); INSERT INTO p VALUES(77, 'x'); INSERT INTO c VALUES(1, 77)"
        )
        try world.outside(1, "DELETE FROM p WHERE id = 77", foreignKeys: false)
        try world.outside(0, "DELETE FROM p WHERE id = 2; UPDATE p SET id = 9 WHERE id = 1")
        try await world.settle()
        #expect(try await world.rows(1, "SELECT pid FROM c") == [[77.databaseValue]])
    }
}
