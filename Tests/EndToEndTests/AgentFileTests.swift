import Foundation
import Testing

@Suite("sync --config keeps many stores in touch", .timeLimit(.minutes(20)))
struct AgentFileTests {
    @Test("the stores of a file are synced, and one that cannot be does not keep the others from it")
    func manyStores() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try write(shop, "stores:\n  - shop.db\n  - path: gone.db\n  - path: laptop.db\n")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            let outcome = try await shop.annals("sync", "--config", "agent.yaml")
            #expect(outcome.status == 66)
            #expect(outcome.errorLines.count == 1 && outcome.errors.contains("gone.db"), "\(outcome.errors)")
            #expect(outcome.lines.count == 2, "\(outcome.output)")
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("a watch goes on with the others")
    func watch() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try write(shop, "stores: [shop.db, gone.db, laptop.db]\n")
            let watch = try Program(Workshop.annals, ["sync", "--watch", "--config", "agent.yaml"], in: shop.path)
            _ = try await watch.prints("laptop.db: ")
            #expect(watch.errors.contains("gone.db"))
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Oslo' WHERE id = 2;")
            try await eventually("the laptop has it") {
                try await shop.shell("laptop.db", ".timeout 20000\nSELECT city FROM customer WHERE id = 2;") == "Oslo"
            }
            watch.signal(SIGTERM)
            #expect(try await watch.end().status == 0)
        }
    }

    @Test(
        "what is wrong with a file is told with its line",
        arguments: [
            ("stores: []\n", "the file lists no store"), ("", "the file lists no store"),
            ("store:\n  - a.db\n", "line 2: store is not a setting"),
            ("stores:\n  - path: a.db\n    token: x\n", "line 3: token is not a setting"), ("stores: a.db\n", "a list of stores"),
            ("stores: [a.db, a.db]\n", "a.db is listed twice"), ("stores: [a\n", "the file is not valid YAML"),
        ])
    func refusals(_ text: String, _ words: String) async throws {
        try await Workshop.with { shop in
            try write(shop, text)
            try await shop.fail(78, words, "sync", "--config", "agent.yaml")
        }
    }

    @Test("the example is a file that is read")
    func example() async throws {
        try await Workshop.with { shop in
            let example = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent()
                .appendingPathComponent("Config/agent.yaml").path
            let outcome = try await shop.annals("sync", "--config", example)
            #expect(outcome.status == 66 && outcome.errorLines.count == 2, "\(outcome.errors)")
            try await shop.fail(66, "there is no file nowhere.yaml", "sync", "--config", "nowhere.yaml")
        }
    }

    private func write(_ shop: Workshop, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: shop.file("agent.yaml")))
    }
}
