import Annals

/// The data of most examples of the reference.
struct Shop {
    static let schema = """
        CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE invoice (
            id INTEGER PRIMARY KEY, customerID INTEGER REFERENCES customer (id), isPaid INTEGER NOT NULL DEFAULT 0,
            amount INTEGER NOT NULL DEFAULT 120);
        CREATE TABLE payment (id INTEGER PRIMARY KEY, invoiceID INTEGER REFERENCES invoice (id), amount INTEGER);
        CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, category TEXT, price REAL);
        INSERT INTO customer VALUES (7, 'Vera');
        INSERT INTO invoice (id, customerID) VALUES (16, 7), (17, 7);
        INSERT INTO item VALUES (1, 'assam', 'tea', 4), (2, 'arabica', 'coffee', 8);
        """

    let file: TemporaryFile
    let store: Store
    /// The point before the first write.
    let beginning: HistoryToken

    var path: String { file.path }
    /// The path of a file that does not exist yet.
    var yesterday: String { file.folder + "/yesterday.db" }

    init() async throws {
        file = try TemporaryFile("shop.db")
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        store = try Store(path: file.path, configuration: configuration)
        try await store.write { db in try db.execute(sql: Shop.schema) }
        try await store.track(.all)
        beginning = try await store.latestToken()
    }

    /// Whether an invoice is paid.
    func isPaid(_ id: Int64) async throws -> Bool? {
        try await store.read { db in try Bool.fetchOne(db, sql: "SELECT isPaid FROM invoice WHERE id = ?", arguments: [id]) }
    }
}

struct Customer: Codable, Hashable, FetchableRecord, PersistableRecord {
    var id: Int64?
    var name: String
}

struct Invoice: Codable, Hashable, FetchableRecord, PersistableRecord {
    var id: Int64
    var customerID: Int64?
    var isPaid: Bool
}

struct Payment: Codable, Hashable, FetchableRecord, PersistableRecord {
    var id: Int64?
    var invoiceID: Int64
    var amount: Int
}
