import AnnalsCore
import Testing

@testable import AnnalsReplica
@testable import AnnalsStore

@Suite("Expressions of sql: policies")
struct PolicyExpressionTests {
    private let expression: PolicyExpression

    init() throws { expression = try PolicyExpression() }

    private func value(_ text: String, base: Value? = .integer(1), stored: Value = .integer(2), incoming: Value = .integer(4)) throws
        -> Value
    {
        try expression.evaluate(
            text, base: base, stored: stored, incoming: incoming, columns: ["id", "the \"name\"", "base"],
            row: [.integer(7), .text("x"), .real(0.5)])
    }

    @Test("see the three values and the row")
    func values() throws {
        #expect(try value("max(:stored, :incoming)") == .integer(4))
        #expect(try value(":stored + :incoming - :base") == .integer(5))
        #expect(try value("coalesce(:base, 'none')", base: nil) == .text("none"))
        #expect(try value("id || \"the \"\"name\"\"\" || base") == .text("7x0.5"))
        #expect(try value(":incoming -- the newer", incoming: .blob([0, 255])) == .blob([0, 255]))
        #expect(try value("CASE WHEN :stored IS NULL THEN NULL ELSE typeof(:incoming) END", stored: .null) == .null)
        #expect(try value("length(:incoming)", incoming: .text(ByteString([0xff, 0xfe]))) == .integer(2))
    }

    @Test(
        "that mean nothing, or too much, are refused when they are set",
        arguments: [
            "", "max(", "no_such_column", ":other", "?9", "1, 2", "1); DROP TABLE t; SELECT (1", "SELECT 1, 2", "no_such_function(1)",
            "(SELECT name FROM t)",
        ])
    func invalid(_ text: String) throws {
        #expect {
            try expression.check(text, columns: ["id"])
        } throws: { error in
            guard case PolicyExpression.Failure.invalid(let message)? = error as? PolicyExpression.Failure else { return false }
            return !message.isEmpty
        }
    }

    @Test("reach no file and no end")
    func harmless() throws {
        for text in ["load_extension('x')", "readfile('/etc/passwd')", "(SELECT count(*) FROM pragma_database_list WHERE file <> '')"] {
            let found = try? value(text)
            #expect(found == nil || found == .integer(0), "\(text)")
        }
        #expect(throws: PolicyExpression.Failure.self) {
            try value("(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c)")
        }
        #expect(throws: PolicyExpression.Failure.self) { try value("zeroblob(1000000000)") }
        #expect(throws: PolicyExpression.Failure.self) { try value("abs(-9223372036854775808)") }
        // A failure has no effect on later expressions.
        #expect(try value("1") == .integer(1))
    }
}
