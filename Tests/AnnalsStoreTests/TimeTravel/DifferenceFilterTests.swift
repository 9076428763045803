import AnnalsCore
import AnnalsHistory
import AnnalsRows
import Testing

@Suite("A difference of some tables, one row, or some columns")
struct DifferenceFilterTests {
    private func shop() throws -> HistoryFile {
        let store = try HistoryFile(
            """
            CREATE TABLE customer(id INTEGER PRIMARY KEY, name, city);
            CREATE TABLE seat(hall TEXT COLLATE NOCASE, number INT, name, PRIMARY KEY (hall, number));
            INSERT INTO customer VALUES(1, 'Vera', 'Cork'), (2, 'Luis', 'Bonn');
            INSERT INTO seat VALUES('main', 1, 'x'), ('main', 2, 'y');
            """)
        try store.track()
        try store.managed("UPDATE customer SET name = 'V' WHERE id = 1; UPDATE seat SET name = 'xx' WHERE number = 1")
        try store.managed("UPDATE customer SET city = 'Rome' WHERE id = 2; INSERT INTO customer VALUES(3, 'Ann', 'Oslo'); DELETE FROM seat")
        return store
    }

    @Test func `tables are found by name in any case`() throws {
        let store = try shop()
        #expect(try Set(store.differences(0, 2, only: DifferenceFilter(tables: ["SEAT"])).map(\.table)) == ["seat"])
        #expect(try store.differences(0, 2, only: DifferenceFilter(tables: ["customer"])).count == 3)
        #expect(try store.differences(0, 2, only: DifferenceFilter(tables: ["customer", "seat"])) == store.differences(0, 2))
    }

    @Test func `one row is found by its key, as the key's index compares it`() throws {
        let store = try shop()
        let seat = DifferenceFilter(tables: ["seat"], key: [.text("MAIN"), .text("1")])
        #expect(try store.differences(0, 2, only: seat).map(brief) == ["delete seat('main',1) hall 'main'→∅ number 1→∅ name 'x'→∅"])
        #expect(try store.differences(2, 1, only: seat).map(brief) == ["insert seat('main',1) hall ∅→'main' number ∅→1 name ∅→'xx'"])
        #expect(try store.differences(0, 2, only: DifferenceFilter(tables: ["customer"], key: [.integer(9)])).isEmpty)
        try store.managed("UPDATE customer SET id = 7 WHERE id = 1")
        let moved = try store.differences(2, 3, only: DifferenceFilter(tables: ["customer"], key: [.integer(7)]))
        #expect(moved.map(\.kind) == [.insert])
    }

    @Test func `columns leave out rows that differ elsewhere, and other columns`() throws {
        let store = try shop()
        let cities = try store.differences(0, 2, only: DifferenceFilter(columns: ["City"]))
        #expect(cities.map(brief) == ["update customer(2) city 'Bonn'→'Rome'", "insert customer(3) city ∅→'Oslo'"])
        let names = try store.differences(0, 2, only: DifferenceFilter(tables: ["customer"], columns: ["name"]))
        #expect(names.map(brief) == ["update customer(1) name 'Vera'→'V'", "insert customer(3) name ∅→'Ann'"])
        #expect(try store.differences(0, 2, only: DifferenceFilter(tables: ["customer"], key: [.integer(1)], columns: ["city"])).isEmpty)
    }

    @Test func `SQL is restricted to tables and rows`() throws {
        let store = try shop()
        let sql = try store.differenceSQL(0, 2, only: DifferenceFilter(tables: ["customer"], key: [.integer(2)]))
        #expect(sql.contains("'Rome'") && !sql.contains("seat") && !sql.contains("'Ann'"))
        #expect(try store.differenceSQL(0, 2, only: DifferenceFilter(tables: ["customer"], key: [.integer(9)])) == "")
    }

    @Test func `what does not fit the tables is refused`() throws {
        let store = try shop()
        func code(_ filter: DifferenceFilter) -> AnnalsError.Code? {
            do {
                _ = try store.differences(0, 2, only: filter)
                return nil
            } catch {
                return (error as? AnnalsError)?.code
            }
        }
        #expect(code(DifferenceFilter(tables: ["nothing"])) == .notTracked)
        #expect(code(DifferenceFilter(key: [.integer(1)])) == .usage)
        #expect(code(DifferenceFilter(tables: ["customer", "seat"], key: [.integer(1)])) == .usage)
        #expect(code(DifferenceFilter(tables: ["seat"], key: [.integer(1)])) == .usage)
        #expect(code(DifferenceFilter(tables: ["customer"], key: [.null])) == .usage)
        #expect(code(DifferenceFilter(tables: ["customer"], columns: ["hall"])) == .usage)
        #expect(code(DifferenceFilter(columns: ["city", "nothing"])) == .usage)
        #expect { try store.differenceSQL(0, 2, only: DifferenceFilter(columns: ["city"])) } throws: {
            ($0 as? AnnalsError)?.code == .usage
        }
    }
}
