import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("Tokens")
struct HistoryTokenTests {
    private let store = StoreID(high: 0x0123_4567_89AB_4CDE, low: 0x8000_0000_0000_0001)

    @Test("A token's text is its number and the store's first twelve digits, and reads back")
    func text() throws {
        let token = HistoryToken(number: 17, store: store)
        #expect(token.description == "17-0123456789ab")
        #expect(HistoryToken("17-0123456789ab") == token)
        #expect(HistoryToken("17-0123456789AB") == token)
        #expect(try JSONDecoder().decode([HistoryToken].self, from: JSONEncoder().encode([token])) == [token])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([HistoryToken].self, from: Data(#"["17"]"#.utf8)) }
    }

    @Test(
        "What is no token is refused",
        arguments: ["", "17", "-17-0123456789ab", "+1-0123456789ab", "17-0123456789a", "17-0123456789ax", "1-2-3"])
    func refused(text: String) {
        #expect(HistoryToken(text) == nil)
    }

    @Test("Tokens of one store have an order; those of two have none")
    func order() {
        let early = HistoryToken(number: 9, store: store)
        let late = HistoryToken(number: 10, store: store)
        let other = HistoryToken(number: 10, store: StoreID(high: 1, low: 1))
        #expect(early < late)
        #expect(early.isOlder(than: late) == true)
        #expect(late.isOlder(than: early) == false)
        #expect(early.isOlder(than: other) == nil)
    }

    @Test("Words, numbers and token texts resolve; others say what can be given")
    func resolve() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try store.track()
        for number in 1...3 { try store.external("INSERT INTO t VALUES(\(number), 'x')") }
        let bounds = try store.bounds()
        #expect(try resolve("start", store) == store.token(0))
        #expect(try resolve("latest", store) == store.token(3))
        #expect(try resolve("2", store) == store.token(2))
        #expect(try resolve(store.token(1).description, store) == store.token(1))
        #expect(bounds.oldest.number == 0)
        #expect(code { try resolve("yesterday", store) } == .usage)
        #expect(code { try resolve("", store) } == .usage)
    }

    @Test("A token of another store or from the future is unknown, one before a gap has expired")
    func errors() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try store.track("t")
        for number in 1...3 { try store.external("INSERT INTO t VALUES(\(number), 'x')") }
        #expect(code { try resolve("4", store) } == .tokenUnknown)
        #expect(code { try resolve("2-0123456789ab", store) } == .tokenUnknown)
        // What was written without the triggers is missing in history.
        try store.outside("DROP TRIGGER \(store.triggerName("insert", of: "t")); INSERT INTO t VALUES(9, 'x')")
        try store.recordExternalChanges()
        #expect(code { try resolve("2", store) } == nil)
        #expect(try store.transactions().map(\.number) == [1, 2, 3, 4])
        #expect(code { try store.transactions(HistoryRequest(after: store.token(4))) } == nil)
        #expect(code { try store.transactions(HistoryRequest(after: store.token(1))) } == .tokenExpired)
        #expect(code { try store.replay(to: store.token(1)) } == .tokenExpired)
    }

    @Test("An expired token's message names the oldest one")
    func message() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try store.track()
        try store.external("INSERT INTO t VALUES(1, 1)")
        try store.outside("DROP TRIGGER \(store.triggerName("insert", of: "t")); INSERT INTO t VALUES(2, 2)")
        try store.recordExternalChanges()
        let oldest = try store.bounds().complete
        #expect(oldest.number == 2)
        do {
            _ = try store.transactions(HistoryRequest(after: store.token(1)))
            Issue.record("an expired token was taken")
        } catch let error as AnnalsError {
            #expect(error.code == .tokenExpired)
            #expect(error.description.contains(oldest.description))
        }
    }

    @Test("A database without history has no tokens")
    func noHistory() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        #expect(code { try store.bounds() } == .notTracked)
    }

    @Test("A date means the last transaction at or before it")
    func dates() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        store.clock.milliseconds = 1_772_352_000_000  // 2026-03-01T08:00:00Z
        try store.track()
        for number in 1...3 { try store.managed(nil, nil, "INSERT INTO t VALUES(\(number), 'x')") }
        // Committed at 08:00:01, :02 and :03.
        #expect(try resolve("2026-03-01T08:00:02Z", store).number == 2)
        #expect(try resolve("2026-03-01T08:00:02.999Z", store).number == 2)
        #expect(try resolve("2026-03-01T10:00:03+02:00", store).number == 3)
        #expect(try resolve("2026-03-02", store).number == 3)
        #expect(try resolve("2026-03-01T08:00:00.500Z", store).number == 0)
        let request = HistoryRequest(after: Date(timeIntervalSince1970: 1_772_352_002))
        #expect(try store.transactions(request).map(\.number) == [3])
        #expect(try store.transactions(HistoryRequest().before(Date(timeIntervalSince1970: 1_772_352_002))).map(\.number) == [1])
    }

    @Test("A date before tracking is refused with the first moment; start is the oldest point")
    func beforeTracking() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        store.clock.milliseconds = 1_772_352_000_250  // 2026-03-01T08:00:00.250Z
        try store.track()
        try store.managed(nil, nil, "INSERT INTO t VALUES(1, 'x')")
        for early in ["2001-01-01", "2026-03-01", "2026-03-01T08:00:00.249Z"] {
            #expect {
                try resolve(early, store)
            } throws: { error in
                (error as? AnnalsError)?.code == .tokenExpired && "\(error)".contains("The first moment is 2026-03-01T08:00:00.250Z")
            }
        }
        #expect(try resolve("2026-03-01T08:00:00.250Z", store).number == 0)
        #expect(try resolve("start", store).number == 0)
    }

    @Test("Tracking a table later leaves the first moment; a store without a noted start begins at its first transaction")
    func laterTable() throws {
        let store = try HistoryFile(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(id INTEGER PRIMARY KEY, a); INSERT INTO u VALUES(1, 'x')")
        store.clock.milliseconds = 1_772_352_000_000  // 2026-03-01T08:00:00Z
        try store.track("t")
        try store.managed(nil, nil, "INSERT INTO t VALUES(1, 'x')")
        store.clock.milliseconds += 9_000
        try store.track("t")
        #expect(try resolve("2026-03-01T08:00:05Z", store).number == 1)
        try store.queue.write { db in try StoreSchema.remove(.began, db) }
        #expect(code { try resolve("2026-03-01T08:00:00.999Z", store) } == .tokenExpired)
        #expect(try resolve("2026-03-01T08:00:01Z", store).number == 1)
        try store.track("u")
        #expect(try resolve("2026-03-01T08:00:05Z", store).number == 1)
    }

    @Test(
        "What lies between two dates is later than the one and earlier than the other, to the millisecond",
        arguments: [
            ("2026-03-01T08:00:01Z", "2026-03-01T08:00:03Z", [2]), ("2026-03-01T08:00:00.999Z", "2026-03-01T08:00:03.001Z", [1, 2, 3]),
            (nil, "2026-03-01T08:00:02Z", [1]), (nil, "2026-03-01T08:00:02.001Z", [1, 2]), (nil, "2026-03-02", [1, 2, 3]),
            (nil, "2026-03-01", []), (nil, "2026-03-01T08:00:01Z", []), ("2026-03-01T08:00:02Z", nil, [3]),
            ("2026-03-01T08:00:01.999Z", nil, [2, 3]), ("2026-03-01", nil, [1, 2, 3]), ("2026-03-02", nil, []), ("1", "3", [2]),
            ("start", "latest", [1, 2]),
        ] as [(String?, String?, [Int64])])
    func between(_ after: String?, _ before: String?, _ expected: [Int64]) throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        store.clock.milliseconds = 1_772_352_000_000  // 2026-03-01T08:00:00Z
        try store.track()
        // Committed at 08:00:01, :02 and :03.
        for number in 1...3 { try store.managed(nil, nil, "INSERT INTO t VALUES(\(number), 'x')") }
        let request = try store.queue.read { db in try HistoryRequest(after: after, before: before, HistoryBounds(db), db) }
        #expect(try store.transactions(request).map(\.number) == expected)
    }

    @Test("An imported transaction counts by when it came, not by its author's clock")
    func importedDates() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        store.clock.milliseconds = 1_772_352_000_000
        try store.track()
        try store.managed(nil, nil, "INSERT INTO t VALUES(1, 'x')")
        try store.managed(nil, nil, "INSERT INTO t VALUES(2, 'x')")
        // As after an apply: the author's clock is a year behind, and the relay received the entry at 08:00:10.
        try store.queue.write { db in
            try db.execute(sql: "INSERT INTO t VALUES(3, 'x')")
            try db.execute(sql: "UPDATE annals_changes_1 SET at = julianday('2026-03-01T08:00:10') WHERE id = 3")
            let info = TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1_740_816_000_000))
            _ = try TransactionRecorder.record(
                db, spans: [TransactionRecorder.Span(table: 1, ids: 3...3)], info: info, origin: .imported, process: nil,
                replica: .random(),
                position: Position(7))
        }
        #expect(try resolve("2026-03-01T08:00:01Z", store).number == 1)
        #expect(try resolve("2026-03-01T08:00:09Z", store).number == 2)
        #expect(try resolve("2026-03-01T08:00:10Z", store).number == 3)
    }

    private func resolve(_ text: String, _ store: HistoryFile) throws -> HistoryToken {
        try store.queue.read { db in try HistoryBounds(db).resolve(text, db) }
    }

    private func code<T>(_ body: () throws -> T) -> AnnalsError.Code? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? AnnalsError)?.code
        }
    }
}

@Suite("Dates as text")
struct ISODateTests {
    @Test(
        "Dates are read to the millisecond",
        arguments: [
            ("1970-01-01", 0), ("1970-01-01T00:00:00.001Z", 1), ("1969-12-31T23:59:59.999Z", -1), ("2026-03-01T08:15", 1_772_352_900_000),
            ("2000-02-29T12:00:00Z", 951_825_600_000), ("2026-03-01T08:15:30.25+02:00", 1_772_345_730_250),
            ("2026-03-01 08:15:30-0130", 1_772_358_330_000), ("2024-12-31T23:59:60Z", 1_735_689_600_000),
            ("2026-03-01T08:15:30.1239999Z", 1_772_352_930_123),
        ])
    func read(text: String, milliseconds: Int64) {
        #expect(ISODate.milliseconds(text) == milliseconds)
    }

    @Test(
        "Anything else is refused",
        arguments: [
            "", "2026", "2026-3-1", "2026-13-01", "2026-02-29", "2026-03-01T", "2026-03-01T24:00", "2026-03-01T08:00:00X",
            "2026-03-01T08:00:00Z ", "2026-03-01T08:00:00+", "20260301", "2026-03-01T08",
        ])
    func refused(text: String) {
        #expect(ISODate.milliseconds(text) == nil)
    }
}
