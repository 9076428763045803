import Foundation
import Testing

@Suite("The times and steps of other programs' writes", .timeLimit(.minutes(20)))
struct StepsTests {
    /// A shop whose first transaction is a group of three commits, at 8, 9 and 11 o'clock.
    private func withGroup(_ body: (Workshop) async throws -> Void) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "customer")
            for (city, time) in [("Rome", "08:00:00.125"), ("Bonn", "09:00:00"), ("Oslo", "11:00:00.125")] {
                try await shop.shell("shop.db", "UPDATE customer SET city = '\(city)' WHERE id = 1;")
                let now =
                    "UPDATE annals_changes_1 SET at = julianday('2026-03-01 \(time)') WHERE id = (SELECT max(id) FROM annals_changes_1);"
                try await shop.shell("shop.db", now)
            }
            try await body(shop)
        }
    }

    private static let times = ["2026-03-01T08:00:00.125Z", "2026-03-01T09:00:00.000Z", "2026-03-01T11:00:00.125Z"]

    @Test func `history and show print each write with its time and the values in between`() async throws {
        try await withGroup { shop in
            let expected = [
                "  2026-03-01T08:00:00.125Z  ~ customer id = 1: city 'Lyon' → 'Rome'",
                "  2026-03-01T09:00:00.000Z  ~ customer id = 1: city 'Rome' → 'Bonn'",
                "  2026-03-01T11:00:00.125Z  ~ customer id = 1: city 'Bonn' → 'Oslo'",
            ]
            let history = try await shop.succeed("history", "shop.db", "--steps")
            let show = try await shop.succeed("show", "shop.db", "1", "--steps")
            for lines in [history.lines, show.lines] {
                #expect(lines.count == 4 && lines[0].hasPrefix("#1") && Array(lines.dropFirst()) == expected, "\(lines)")
            }
            let net = try await shop.succeed("show", "shop.db", "1").lines
            #expect(net.last == "  ~ customer id = 1: city 'Lyon' → 'Oslo'")

            let brief = try await shop.succeed("history", "shop.db", "--steps", "--json").object()
            #expect((brief["changes"] as? [Any])?.count == 1)
            let steps = try #require(brief["steps"] as? [[String: Any]])
            #expect(steps.map { $0["time"] as? String } == Self.times)
            for step in steps { #expect(Set(step.keys) == ["table", "key", "kind", "columns", "time"]) }
            let whole = try await shop.succeed("history", "shop.db", "--steps", "--json", "--values").object()
            let values = try #require(whole["steps"] as? [[String: Any]])
            #expect(values.map { $0["new"] as? [String: String] } == [["city": "Rome"], ["city": "Bonn"], ["city": "Oslo"]])
            #expect(try await shop.succeed("history", "shop.db", "--json").object()["steps"] == nil)
        }
    }

    @Test func `a time within a transaction selects it, and its writes of that time`() async throws {
        try await withGroup { shop in
            func lines(_ arguments: [String]) async throws -> [String] {
                let outcome = try await Program.run(Workshop.annals, ["history", "shop.db"] + arguments, in: shop.path)
                return outcome.lines.map { String($0.prefix(26)) }
            }
            let (between, until) = ("2026-03-01T08:30:00Z", "2026-03-01T10:00:00Z")
            for (arguments, expected) in [
                (["--after", between, "--before", until], [1]), (["--before", until], [0, 1]), (["--after", between], [1, 2]),
            ] {
                let steps = try await lines(arguments + ["--steps"]).dropFirst()
                #expect(Array(steps) == expected.map { "  \(Self.times[$0])" }, "\(arguments)")
            }
            let net = try await lines(["--after", between, "--before", until])
            #expect(net.count == 2)
            // No write is older.
            let none = try await lines(["--before", "2026-03-01T08:00:00.125Z"])
            #expect(none == ["no transactions"])
            let row = try await shop.succeed("history", "shop.db", "--table", "customer", "--key", "77", "--column", "city")
            #expect(row.lines == ["no transactions changed city of the row 77 of customer"])
            try await shop.fail(64, "2999-01-01T00:00:00.000Z is in the future", "history", "shop.db", "--after", "2999-01-01")
        }
    }

    @Test func `history lists the changes of one row, of a column, or of one cell`() async throws {
        try await Workshop.withTrackedShop { shop in
            for sql in ["city = 'Rome' WHERE id = 1", "name = 'N' WHERE id = 1", "city = 'x' WHERE id = 2"] {
                try await shop.write("UPDATE customer SET \(sql);")
            }
            func numbers(_ arguments: String...) async throws -> [Int?] {
                let outcome = try await Program.run(
                    Workshop.annals, ["history", "shop.db", "--json", "--table", "customer"] + arguments, in: shop.path)
                return try outcome.objects().map { $0["number"] as? Int }
            }
            #expect(try await numbers("--key", "1") == [1, 2])
            #expect(try await numbers("--column", "city") == [1, 3])
            #expect(try await numbers("--key=1", "--column", "CITY") == [1])
            #expect(try await numbers("--key", "9") == [])
            // A key that changes: the update is found under both keys.
            try await shop.write("UPDATE customer SET id = 9 WHERE id = 2;")
            #expect(try await numbers("--key", "9") == [4])
            #expect(try await numbers("--key", "2") == [3, 4])
            try await shop.fail(64, "--key and --column need --table", "history", "shop.db", "--key", "1")
            try await shop.fail(64, "has no column size", "history", "shop.db", "--table", "customer", "--column", "size")
            try await shop.fail(64, "the key of customer is id", "history", "shop.db", "--table", "customer", "--key", "1", "2")
        }
    }

    @Test func `a time that nothing noted is unknown`() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "customer")
            try await shop.shell("shop.db", "REPLACE INTO customer (id, name, email) VALUES (9, 'Vera', 'vera@example.org');")
            let lines = try await shop.succeed("history", "shop.db", "--steps").lines
            #expect(
                lines.count == 3 && lines[2].hasPrefix("  time unknown\(String(repeating: " ", count: 14))- customer id = 1: "), "\(lines)")
            let steps = try await shop.succeed("history", "shop.db", "--steps", "--json").object()["steps"] as? [[String: Any]]
            #expect(steps?.last?["time"] is NSNull && steps?.first?["time"] is String)
        }
    }

    @Test func `blame has the time of the write, and columns for author, replica and note`() async throws {
        try await withGroup { shop in
            try await shop.shell("shop.db", "UPDATE customer SET name = 'V' WHERE id = 1;")
            let lines = try await shop.succeed("blame", "shop.db", "customer", "1").lines
            #expect(lines[0].split(separator: " ") == ["column", "value", "written", "author", "replica", "note", "transaction"])
            #expect(lines[5].contains(Self.times[2]) && lines[5].hasSuffix("#1 external"), "\(lines)")
            let columns = try await shop.succeed("blame", "shop.db", "customer", "1", "--json").object()["columns"] as? [[String: Any]]
            #expect(columns?.first?["time"] is NSNull)
            #expect(columns?.last?["time"] as? String == Self.times[2])
        }
    }

    @Test func `status says how coarse history is`() async throws {
        try await withGroup { shop in
            let line = try #require(try await shop.succeed("status", "shop.db").lines.first { $0.hasPrefix("external") })
            #expect(
                line.hasSuffix(
                    "1 of 1 transactions, up to 3 h of commits in one; annals watch or annals sync --watch records each commit"), "\(line)")
            let external = try await shop.succeed("status", "shop.db", "--json").object()["external"] as? [String: Any]
            #expect(external?["transactions"] as? Int == 1 && external?["examined"] as? Int == 1)
            #expect(external?["longestSeconds"] as? Double == 10_800)
        }
    }

    @Test("watch --quiet records each commit and prints nothing", arguments: ["wal", "delete"])
    func quiet(mode: String) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "PRAGMA journal_mode = \(mode);")
            try await shop.succeed("track", "shop.db", "customer")
            let watch = try Program(Workshop.annals, ["watch", "shop.db", "--quiet"], in: shop.path)
            for (index, city) in ["Rome", "Bonn", "Oslo"].enumerated() {
                try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = '\(city)' WHERE id = 1;")
                let count = ".timeout 20000\nSELECT count(*) FROM annals_transactions;"
                try await eventually("it is recorded") { try await shop.shell("shop.db", count) == "\(index + 1)" }
            }
            watch.signal(SIGTERM)
            let end = try await watch.end()
            #expect(end.status == 0 && end.errors == "" && watch.output == "")
            let changes = try await shop.succeed("history", "shop.db", "--values").lines
            #expect(changes.filter { $0.hasPrefix("  ~") }.map { String($0.suffix(6)) } == ["'Rome'", "'Bonn'", "'Oslo'"])
            for option in ["--json", "--values", "--steps"] {
                try await shop.fail(64, "--quiet prints nothing", "watch", "shop.db", "--quiet", option)
            }
            try await shop.shell("other.db", "CREATE TABLE t (id INTEGER PRIMARY KEY);")
            try await shop.fail(65, "annals track", "watch", "other.db", "--quiet")
        }
    }

    @Test func `watch prints the steps of what was committed before it`() async throws {
        try await withGroup { shop in
            let watch = try Program(Workshop.annals, ["watch", "shop.db", "--steps", "--after", "start"], in: shop.path)
            _ = try await watch.prints("'Oslo'\n")
            watch.signal(SIGINT)
            #expect(try await watch.end().status == 0)
            #expect(watch.output.split(separator: "\n").dropFirst().map { String($0.dropFirst(2).prefix(24)) } == Self.times)
        }
    }
}
