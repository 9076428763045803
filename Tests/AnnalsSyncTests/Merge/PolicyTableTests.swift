import AnnalsCore
import AnnalsMerge
import Foundation
import Testing

/// Every policy in every situation, as `Documentation/policies.md` shows them.
@Suite("The table of policies") struct PolicyTableTests {
    private struct Line: Sendable {
        var name: String
        var policies: MergePolicies
        var sample = PolicyTable.Sample()
    }

    private static var lines: [Line] {
        func columns(_ policy: ColumnPolicy, _ sample: PolicyTable.Sample = .init()) -> Line {
            Line(name: policy.description, policies: MergePolicies(standard: .init(column: policy)), sample: sample)
        }
        func text(_ base: String, _ stored: String, _ incoming: String) -> PolicyTable.Sample {
            .init(type: "TEXT", base: "'\(base)'", stored: "'\(stored)'", incoming: "'\(incoming)'")
        }
        var sql = columns(.sql(":stored + :incoming"))
        sql.policies.evaluate = { _, conflict in
            guard let stored = conflict.stored.integer, let incoming = conflict.incoming.integer else { return nil }
            return .integer(stored + incoming)
        }
        return [
            columns(.lastWriterWins), columns(.mergeByPropertyStoreTrump), columns(.mergeByPropertyObjectTrump), columns(.sum),
            columns(.min),
            columns(.max), columns(.union, text(#"["a","b"]"#, #"["a","b","c"]"#, #"["b"]"#)),
            columns(.json, text(#"{"a":1,"b":1}"#, #"{"a":2,"b":1}"#, #"{"a":1,"b":3}"#)),
            columns(.text, text("1\n2\n3\n", "A\n2\n3\n", "1\n2\nC\n")), sql,
            Line(name: "overwrite", policies: MergePolicies(standard: .init(row: .overwrite))),
            Line(name: "rollback", policies: MergePolicies(standard: .init(row: .rollback))),
            Line(name: "manual", policies: MergePolicies(standard: .init(row: .manual))),
        ] + DeleteRule.allCases.map { Line(name: "delete: \($0.rawValue)", policies: MergePolicies(standard: .init(delete: $0))) }
            + UniqueRule.allCases.map { Line(name: "unique: \($0.rawValue)", policies: MergePolicies(standard: .init(unique: $0))) }
            + KeyRule.allCases.map { Line(name: "key: \($0.rawValue)", policies: MergePolicies(standard: .init(key: $0))) }
            + [Line(name: "whole", policies: MergePolicies(standard: .init(isWhole: true)))]
    }

    @Test("Documentation/policies.md says what happens; ANNALS_WRITE=1 writes the table anew")
    func documentation() async throws {
        var table = ["| policy | " + PolicyTable.situations(.init()).map(\.name).joined(separator: " | ") + " |"]
        table.append("|" + String(repeating: "---|", count: PolicyTable.situations(.init()).count + 1))
        let rows = try await withThrowingTaskGroup(of: (Int, String).self) { group in
            for (number, line) in Self.lines.enumerated() {
                group.addTask {
                    let cells = try await PolicyTable.outcomes(line.policies, line.sample)
                    return (number, "| `\(line.name)` | " + cells.joined(separator: " | ") + " |")
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        table += rows.sorted { $0.key < $1.key }.map(\.value)
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../..")
        let file = root.appending(path: "Documentation/policies.md")
        let page = try String(contentsOf: file, encoding: .utf8)
        let parts = page.components(separatedBy: "<!-- table -->\n")
        try #require(parts.count == 3, "the page has no place for the table")
        let written = table.joined(separator: "\n") + "\n"
        if ProcessInfo.processInfo.environment["ANNALS_WRITE"] != nil {
            try [parts[0], written, parts[2]].joined(separator: "<!-- table -->\n").write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(parts[1] == written, "the table says otherwise")
        }
    }
}
