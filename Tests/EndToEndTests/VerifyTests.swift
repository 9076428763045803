import Foundation
import Testing

@Suite("A store that is off is told, and repaired", .timeLimit(.minutes(20)))
struct VerifyTests {
    @Test("one repair mends also what was hidden behind something else", arguments: [false, true])
    func hidden(isJSON: Bool) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            let triggers = try await shop.shell(
                "shop.db", "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'customer' LIMIT 1;")
            try await shop.shell("shop.db", "DROP TRIGGER \"\(triggers)\"; DROP TABLE annals_spans;")
            #expect(try await shop.annals("verify", "shop.db").status == 1)
            let rehearsal = try await shop.annals("verify", "shop.db", "--repair", "--dry-run")
            #expect(rehearsal.status == 1 && rehearsal.output.contains("to repair: create annals_spans again"), "\(rehearsal)")
            let rows = try await shop.shell("shop.db", "SELECT * FROM customer; SELECT * FROM invoice;")
            let outcome =
                try await (isJSON ? shop.annals("verify", "shop.db", "--repair", "--json") : shop.annals("verify", "shop.db", "--repair"))
            #expect(outcome.status == 0, "\(outcome)")
            if isJSON {
                let report = try outcome.object()
                #expect(report["ok"] as? Bool == true && (report["findings"] as? [Any])?.isEmpty == false, "\(report)")
                #expect((report["steps"] as? [String])?.contains { $0.contains("triggers") } == true, "\(report)")
            } else {
                #expect(outcome.output.contains("to repair: restore the capture triggers"), "\(outcome.output)")
                #expect(outcome.lines.last == "shop.db: no problems found", "\(outcome.output)")
            }
            #expect(try await shop.succeed("verify", "shop.db").output == "shop.db: no problems found\n")
            #expect(try await shop.shell("shop.db", "SELECT * FROM customer; SELECT * FROM invoice;") == rows)
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            #expect(try await shop.succeed("history", "shop.db").output.contains("customer id = 1: city"))
        }
    }

    @Test func `what cannot be repaired is told with the way out, which leaves the rows`() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let rows = try await shop.shell("shop.db", "SELECT * FROM customer; SELECT * FROM invoice;")
            try await shop.shell("shop.db", "UPDATE annals_tables SET columns = 'x';")
            let outcome = try await shop.annals("verify", "shop.db", "--repair")
            #expect(outcome.status == 1)
            #expect(outcome.lines.first == "history: annals_tables.columns contains a value that Annals never writes there", "\(outcome)")
            #expect(outcome.lines.last?.hasPrefix("this cannot be repaired. Run annals untrack") == true, "\(outcome)")
            let refused = try await shop.annals("history", "shop.db")
            #expect(refused.status == 65 && refused.errors.contains("Run annals verify"), "\(refused)")
            try await shop.succeed("untrack", "shop.db")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("verify", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT * FROM customer; SELECT * FROM invoice;") == rows)
        }
    }
}
