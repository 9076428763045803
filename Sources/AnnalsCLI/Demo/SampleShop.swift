import GRDB

/// The sample data: a shop with products, customers and invoices, the same in every run.
enum SampleShop {
    static let productCount = 120
    static let customerCount = 600
    static let invoiceCount = 1000

    /// An ordinary schema with integer keys, as other programs use.
    static let schema = """
        CREATE TABLE category (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE product (
            id INTEGER PRIMARY KEY,
            category_id INTEGER NOT NULL REFERENCES category (id),
            name TEXT NOT NULL,
            cents INTEGER NOT NULL CHECK (cents >= 0),
            stock INTEGER NOT NULL
        );
        CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, city TEXT);
        CREATE TABLE invoice (
            id INTEGER PRIMARY KEY,
            customer_id INTEGER NOT NULL REFERENCES customer (id),
            day TEXT NOT NULL
        );
        CREATE TABLE invoice_line (
            invoice_id INTEGER NOT NULL REFERENCES invoice (id) ON DELETE CASCADE,
            line INTEGER NOT NULL,
            product_id INTEGER NOT NULL REFERENCES product (id),
            quantity INTEGER NOT NULL CHECK (quantity > 0),
            PRIMARY KEY (invoice_id, line)
        ) WITHOUT ROWID;
        CREATE INDEX invoice_by_customer ON invoice (customer_id);
        CREATE VIEW turnover AS
            SELECT i.day, sum(l.quantity * p.cents) AS cents
            FROM invoice i JOIN invoice_line l ON l.invoice_id = i.id JOIN product p ON p.id = l.product_id
            GROUP BY i.day;
        """

    /// Creates the schema and about 4,700 rows, in one transaction.
    static func fill(_ db: Database) throws {
        var numbers = Numbers(state: 2024)
        try db.execute(sql: schema)
        for name in categories { try db.execute(sql: "INSERT INTO category (name) VALUES (?)", arguments: [name]) }
        for id in 1...productCount {
            let name = "\(numbers.pick(adjectives)) \(numbers.pick(things))"
            try db.cachedStatement(sql: "INSERT INTO product (category_id, name, cents, stock) VALUES (?, ?, ?, ?)").execute(
                arguments: [id % categories.count + 1, name, numbers.next(200, 20_000) / 10 * 10, numbers.next(0, 90)])
        }
        for id in 1...customerCount {
            let first = numbers.pick(firstNames)
            let last = numbers.pick(lastNames)
            let email = "\(first.lowercased()).\(last.lowercased()).\(id)@example.org"
            try db.cachedStatement(sql: "INSERT INTO customer (name, email, city) VALUES (?, ?, ?)").execute(
                arguments: ["\(first) \(last)", email, numbers.pick(cities)])
        }
        for id in 1...invoiceCount {
            let day = "2024-\(twoDigits(1 + (id - 1) * 6 / invoiceCount))-\(twoDigits(numbers.next(1, 28)))"
            try db.cachedStatement(sql: "INSERT INTO invoice (customer_id, day) VALUES (?, ?)").execute(
                arguments: [numbers.next(1, customerCount), day])
            for line in 1...numbers.next(1, 5) {
                try db.cachedStatement(sql: "INSERT INTO invoice_line VALUES (?, ?, ?, ?)").execute(
                    arguments: [id, line, numbers.next(1, productCount), numbers.next(1, 6)])
            }
        }
    }

    /// The statements that the two sides run while they are offline.
    static let plan = DemoPlan(
        shop: [
            "UPDATE product SET cents = 1190 WHERE id = 7",
            "UPDATE customer SET city = 'Porto' WHERE id = 3",
            "INSERT INTO invoice (customer_id, day) VALUES (3, '2024-07-01')",
            "INSERT INTO invoice_line VALUES (last_insert_rowid(), 1, 7, 2), (last_insert_rowid(), 2, 12, 1)",
        ],
        laptop: [
            "UPDATE product SET cents = 990 WHERE id = 7",
            "UPDATE customer SET email = 'vera@example.org' WHERE id = 3",
            "INSERT INTO invoice (customer_id, day) VALUES (8, '2024-07-02')",
            "INSERT INTO invoice_line VALUES (last_insert_rowid(), 1, 30, 5)",
            "DELETE FROM invoice WHERE id = 5",
        ],
        looks: [
            .init(title: "One price, changed on both sides", sql: "SELECT id, name, cents, stock FROM product WHERE id = 7"),
            .init(title: "Two columns of one row, one changed on each side", sql: "SELECT * FROM customer WHERE id = 3"),
            .init(
                title: "The same new number on both sides: two invoices, each with its own lines",
                sql: """
                    SELECT i.id AS invoice, c.name AS customer, i.day, l.line, p.name AS product, l.quantity
                    FROM invoice i JOIN customer c ON c.id = i.customer_id
                    JOIN invoice_line l ON l.invoice_id = i.id JOIN product p ON p.id = l.product_id
                    WHERE i.id > 1000 ORDER BY i.id, l.line
                    """),
            .init(
                title: "An invoice deleted on the laptop, with its lines",
                sql: """
                    SELECT (SELECT count(*) FROM invoice WHERE id = 5) AS invoices,
                        (SELECT count(*) FROM invoice_line WHERE invoice_id = 5) AS lines
                    """),
        ])

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// The same numbers in every run (SplitMix64, Steele and others, 2014).
    private struct Numbers {
        var state: UInt64

        mutating func next(_ low: Int, _ high: Int) -> Int {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return low + Int((mixed ^ (mixed >> 31)) % UInt64(high - low + 1))
        }

        mutating func pick(_ words: [String]) -> String { words[next(0, words.count - 1)] }
    }

    private static let categories = ["Kitchen", "Garden", "Paper", "Light", "Wool", "Wood", "Travel", "Toys"]
    private static let adjectives = ["Blue", "Round", "Small", "Oak", "Linen", "Brass", "Folding", "Striped", "Plain", "Heavy"]
    private static let things = [
        "teapot", "lantern", "notebook", "basket", "blanket", "trowel", "puzzle", "bag", "stool", "candle", "bowl", "ruler",
    ]
    private static let firstNames = [
        "Vera", "Luis", "Mina", "Oskar", "Ines", "Tariq", "Sofia", "Jonas", "Aiko", "Pablo", "Greta", "Samir", "Elena", "Kofi", "Runa",
    ]
    private static let lastNames = [
        "Almeida", "Berg", "Costa", "Dahl", "Endo", "Fuchs", "Garcia", "Haddad", "Ivanova", "Jansen", "Keita", "Lind", "Mori", "Novak",
    ]
    private static let cities = ["Lisbon", "Malmö", "Kyoto", "Lyon", "Bremen", "Accra", "Zürich", "Gdańsk", "Tunis", "Cork"]
}
