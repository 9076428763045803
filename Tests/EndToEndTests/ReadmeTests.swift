import Annals
import Foundation
import Testing

/// A document with commands and examples that are run unchanged.
struct TestedPage {
    let lines: [String]

    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..").standardized

    static func readme() throws -> TestedPage { try TestedPage("README.md") }
    static func tutorial() throws -> TestedPage { try TestedPage("Documentation/tutorial.md") }

    init(_ path: String) throws {
        lines = try String(contentsOf: Self.root.appendingPathComponent(path), encoding: .utf8).components(separatedBy: "\n")
    }

    /// The lines of the first code block in a language.
    func block(_ language: String) throws -> [String] {
        let start = try #require(lines.firstIndex(of: "```\(language)"))
        return Array(lines[(start + 1)...].prefix { $0 != "```" })
    }

    /// The lines under a heading of the second level.
    func section(_ heading: String) throws -> [String] {
        let start = try #require(lines.firstIndex(of: "## \(heading)"))
        return Array(lines[(start + 1)...].prefix { !$0.hasPrefix("## ") })
    }

    /// The commands of a section. Without `heading` the commands of all sections before another one.
    func commands(in heading: String) throws -> [String] {
        Self.commands(try section(heading))
    }

    func commands(before heading: String) throws -> [String] {
        Self.commands(Array(lines.prefix { $0 != "## \(heading)" }))
    }

    private static func commands(_ lines: [String]) -> [String] {
        lines.filter { $0.hasPrefix("    ") }.map { String($0.dropFirst(4)) }
    }

    /// The texts between backticks.
    var spans: [String] {
        lines.filter { !$0.hasPrefix("    ") && !$0.hasPrefix("```") }.flatMap { line in
            line.matches(of: /`([^`]+)`/).map { String($0.1) }
        }
    }
}

@Suite("The README", .timeLimit(.minutes(20)))
struct ReadmeTests {
    @Test("shows what the demonstration prints")
    func transcript() async throws {
        let shown = try TestedPage.readme().block("text").filter { !$0.isEmpty }
        #expect(shown.count > 10)
        try await Workshop.with { shop in
            let demo = try await shop.succeed("demo")
            #expect(demo.errors == "")
            func withoutTime(_ line: String) -> String { line.replacing(/\d{4}-\d\d-\d\dT[\d:.]+Z/, with: "TIME") }
            var rest = demo.lines.map(withoutTime)[...]
            for line in shown.map(withoutTime) {
                let place = rest.firstIndex(of: line)
                #expect(place != nil, "not printed, or in another order: \(line)")
                if let place { rest = rest[(place + 1)...] }
            }
        }
    }

    @Test("has commands for a relay that work as they stand")
    func relay() async throws {
        let commands = try TestedPage.readme().commands(in: "A relay, and two files in sync")
        #expect(commands.count > 3)
        try await Workshop.with { shop in
            try await shop.makeShop()
            let outcome = try await Self.run(commands, in: shop)
            #expect(outcome.status == 0, "\(outcome.errors)")
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("the tutorial has commands that work as they stand")
    func byHand() async throws {
        let commands = try TestedPage.tutorial().commands(before: "Time travel")
        #expect(commands.count > 15)
        try await Workshop.with { shop in
            let outcome = try await Self.run(commands, in: shop)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(outcome.output.contains("city 'Lyon' → 'Oslo'"))
            #expect(outcome.output.contains("✓ stored   city = 'Rome'"))
            for file in ["shop.db", "laptop.db"] {
                #expect(try await shop.shell(file, "SELECT name, city FROM customer ORDER BY id;") == "Vera|Bonn\nAnn|")
            }
            #expect(try await shop.shell("before.db", "SELECT name, city FROM customer;") == "Vera|Lyon")
            #expect(try await shop.shell("notebook.db", "SELECT count(*) FROM book;") == "0")
        }
    }

    /// Runs commands in a shell. The relay takes a free port and prints it. The next command waits until the relay listens.
    private static func run(_ commands: [String], in shop: Workshop) async throws -> Outcome {
        let script = commands.map { command in
            guard command.hasSuffix("&") else {
                return command.replacing("http://127.0.0.1:8640", with: "$relay").replacing(
                    "localhost:8640", with: "localhost:${relay##*:}")
            }
            return """
                \(command.dropLast().replacing("127.0.0.1:8640", with: "127.0.0.1:0"))> relay.out &
                until grep -q listening relay.out; do kill -0 $!; sleep 0.05; done
                relay=$(sed -n 's/^listening on //p' relay.out)
                """
        }
        let folder = URL(fileURLWithPath: Workshop.annals).deletingLastPathComponent().path
        let path = folder + ":" + (ProcessInfo.processInfo.environment["PATH"] ?? "")
        return try await Program.run(
            "bash", ["-c", "set -eu; trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + script.joined(separator: "\n")], in: shop.path,
            environment: ["PATH": path])
    }

    @Test("the page about who changed a cell has commands that answer")
    func whoChangedThis() async throws {
        let page = try TestedPage("Documentation/who-changed-this.md")
        let commands = ["Begin", "Two people write", "Who wrote the value that is there now", "What was there in between"]
        try await Workshop.with { shop in
            let outcome = try await Self.run(commands.flatMap { try page.commands(in: $0) }, in: shop)
            #expect(outcome.status == 0, "\(outcome.errors)")
            // The last commands list the writes of one cell only.
            #expect(outcome.lines.suffix(4).map { $0.contains("price 3") || $0.hasPrefix("#") } == [true, true, true, true])
            for text in ["bob", "price 300 → 350", "price 350 → 30", "name 'Coffee' → 'Espresso'"] {
                #expect(outcome.output.contains(text), "\(text): \(outcome.output)")
            }
            let past = try page.commands(in: "The rows at some time")
            let difference = try await Self.run([past[0]], in: shop)
            #expect(difference.status == 1 && difference.output.contains("price 300 → 30"), "\(difference.output)")
            let undone = try await Self.run(past.dropFirst() + page.commands(in: "Undo it"), in: shop)
            #expect(undone.status == 0, "\(undone.errors)")
            #expect(try await shop.shell("shop.db", "SELECT * FROM product") == "1|Tea|350\n2|Espresso|450")
            #expect(try await shop.shell("then.db", "SELECT price FROM product WHERE id = 1") == "350")
        }
    }

    @Test("the page about keys has commands that do what it says")
    func keys() async throws {
        let page = try TestedPage("Documentation/keys.md")
        try await Workshop.with { shop in
            let outcome = try await Self.run(["Which key", "Integer keys"].flatMap { try page.commands(in: $0) }, in: shop)
            #expect(outcome.status == 0, "\(outcome.errors)")
            for text in ["1|Ann|Monday\n2|Bob|Friday\n", "the incoming row became id = 2"] {
                #expect(outcome.output.contains(text), "\(text): \(outcome.output)")
            }
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["outbox"] as? Int == 0)
            let numbers = try await Self.run(page.commands(in: "Numbers that people see"), in: shop)
            #expect(numbers.status == 0, "\(numbers.errors)")
            #expect(try await shop.shell("shop.db", "SELECT till, number FROM invoice") == "T3|1")
        }
    }

    @Test("the page about the first relay has commands that work as they stand")
    func firstRelay() async throws {
        let commands = try TestedPage("Documentation/first-relay.md").commands(before: "If something is wrong")
        #expect(commands.count > 8)
        try await Workshop.with { shop in
            let outcome = try await Self.run(commands, in: shop)
            #expect(outcome.status == 0, "\(outcome.errors)")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT price FROM product") == "350")
        }
    }

    @Test("the tutorial has commands of time travel that do what it says")
    func timeTravel() async throws {
        let commands = try TestedPage.tutorial().commands(in: "Time travel").map { $0.split(separator: " ").dropFirst().map(String.init) }
        #expect(commands.map(\.first) == ["diff", "diff", "blame", "revert", "watch"])
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            for command in commands.dropLast() {
                let outcome = try await Program.run(Workshop.annals, command, in: shop.path)
                #expect(outcome.status == (command[0] == "diff" ? 1 : 0) && outcome.output.contains("1"), "\(command): \(outcome.errors)")
            }
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Lyon")
            let watch = try Program(Workshop.annals, try #require(commands.last) + ["--after", "start"], in: shop.path)
            _ = try await watch.prints("'Oslo' → 'Lyon'")
            watch.signal(SIGINT)
            #expect(try await watch.end().status == 0)
        }
    }

    @Test("has an app that compiles and runs")
    func app() async throws {
        let example = try String(
            contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("ReadmeExample.swift"),
            encoding: .utf8)
        let compiled = example.components(separatedBy: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        let steps = try TestedPage.readme().block("swift").map { line in
            line.trimmingCharacters(in: .whitespaces).replacing("\"shop.db\"", with: "path").replacing(
                "\"http://127.0.0.1:8640\"", with: "address")
        }
        #expect(steps.count > 5)
        for line in steps where !line.isEmpty { #expect(compiled.contains(line), "not in ReadmeExample.swift: \(line)") }
        try await Workshop.with { shop in
            try await shop.shell(
                "shop.db", "CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER); INSERT INTO invoice VALUES (17, 0);")
            let url = try await shop.relay()
            let summary = try await ReadmeExample.run(path: shop.file("shop.db"), address: url)
            #expect(summary.space == "shop" && summary.position > .zero && summary.outbox == 0)
            try await shop.succeed("clone", url, "shop", "other.db")
            #expect(try await shop.shell("other.db", "SELECT paid FROM invoice;") == "1")
            let history = try await shop.succeed("history", "shop.db", "--author", "till 3", "--json").objects()
            #expect(history.count == 1)
        }
    }

    @Test("names commands, options and targets of make that exist")
    func names() async throws {
        let makefile = try String(contentsOf: TestedPage.root.appendingPathComponent("Makefile"), encoding: .utf8)
        let spans = try TestedPage.readme().spans + TestedPage.tutorial().spans
        for span in spans where span.hasPrefix("make ") {
            let target = span.split(separator: " ")[1]
            #expect(makefile.contains("\n\(target):"), "\(span)")
        }
        let commands = spans.filter { $0.hasPrefix("annals ") && !$0.hasPrefix("annals --") }
        #expect(!commands.isEmpty)
        try await Workshop.with { shop in
            for span in commands {
                let words = span.split(separator: " ").dropFirst().map(String.init)
                let verbs = Array(words.prefix { $0.allSatisfy { $0.isLowercase || $0 == "-" } && !$0.hasPrefix("-") }.prefix(3))
                let help = try await Program.run(Workshop.annals, verbs + ["--help"], in: shop.path)
                #expect(help.status == 0, "\(span)")
                for option in words where option.hasPrefix("--") { #expect(help.output.contains(option), "\(option) of \(span)") }
            }
        }
    }
}
