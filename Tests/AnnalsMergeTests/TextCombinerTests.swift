import AnnalsCore
import AnnalsMerge
import SeededRandom
import Testing

@Suite("Combining texts by lines") struct TextCombinerTests {
    @Test(
        "Changes in different places are both there",
        arguments: [
            ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"), ("a\nb\nc", "a\nb\nc\nd", "x\na\nb\nc", "x\na\nb\nc\nd"),
            ("a\nb\nc\n", "a\nb\nc\nd\n", "x\na\nb\nc\n", "x\na\nb\nc\nd\n"), ("a\nb\nc\nd\n", "a\nc\nd\n", "a\nb\nc\nD\n", "a\nc\nD\n"),
            ("a\nb\n", "a\n", "a\n", "a\n"), ("a\nb\nc\n", "a\nx\nb\nc\n", "a\nb\ny\nc\n", "a\nx\nb\ny\nc\n"),
            ("", "a\n", "a\n", "a\n"), ("a\n\n\nb\n", "A\n\n\nb\n", "a\n\n\nB\n", "A\n\n\nB\n"),
        ])
    func examples(base: String, stored: String, incoming: String, expected: String) {
        #expect(combine(base, stored, incoming) == .text(expected))
    }

    @Test(
        "Changes of the same stretch are not combinable",
        arguments: [
            ("a\nb\nc\n", "a\nx\nc\n", "a\ny\nc\n"), ("a\nb\n", "x\nb\n", "a\ny\n"), ("", "a\n", "b\n"), ("a\n", "", "b\n"),
            ("a\nb\nc\n", "a\nc\n", "a\nB\nc\n"),
        ])
    func conflicts(base: String, stored: String, incoming: String) {
        #expect(combine(base, stored, incoming) == nil)
    }

    @Test("Bytes that are not UTF-8 are lines like others")
    func bytes() {
        let value = ColumnPolicy.text.combine(
            base: .text(ByteString([0xFF, 10, 98, 10, 99, 10])), stored: .text(ByteString([0xFE, 10, 98, 10, 99, 10])),
            incoming: .text(ByteString([0xFF, 10, 98, 10, 0xFD, 10])))
        #expect(value == .text(ByteString([0xFE, 10, 98, 10, 0xFD, 10])))
    }

    @Test("What is no text, or has no base, is not combinable")
    func noText() {
        #expect(ColumnPolicy.text.combine(base: nil, stored: .text("a"), incoming: .text("b")) == nil)
        #expect(ColumnPolicy.text.combine(base: .text(""), stored: .null, incoming: .text("b")) == nil)
        #expect(ColumnPolicy.text.combine(base: .text(""), stored: .blob([1]), incoming: .text("b")) == nil)
    }

    @Test("More differing lines than the limit are not combinable, and few in a long text are")
    func limits() {
        let lines = (0..<50_000).map(String.init)
        func text(_ lines: [String]) -> String { lines.joined(separator: "\n") + "\n" }
        var (here, there) = (lines, lines)
        here[10] = "x"
        there[49_000] = "y"
        var both = here
        both[49_000] = "y"
        #expect(combine(text(lines), text(here), text(there)) == .text(text(both)))
        #expect(combine(text(lines), text(lines.map { $0 + "!" }), text(there)) == nil)
    }

    @Test("It is symmetric, keeps the other side where one is unchanged, and has every line that both kept")
    func properties() {
        Seeds.each(400) { seed, random in
            let base = (0..<Int.random(in: 0...8, using: &random)).map { "\($0 % 5)" }
            func edited() -> [String] {
                var lines = base
                for _ in 0..<Int.random(in: 0...2, using: &random) {
                    let place = Int.random(in: 0...lines.count, using: &random)
                    if Bool.random(using: &random) || place == lines.count {
                        lines.insert("n\(Int.random(in: 0...99, using: &random))", at: place)
                    } else {
                        lines.remove(at: place)
                    }
                }
                return lines
            }
            func text(_ lines: [String]) -> String { lines.map { $0 + "\n" }.joined() }
            let (stored, incoming) = (edited(), edited())
            let combined = combine(text(base), text(stored), text(incoming))
            #expect(combined == combine(text(base), text(incoming), text(stored)), "ANNALS_SEED=\(seed)")
            #expect(combine(text(base), text(stored), text(base)) == .text(text(stored)), "ANNALS_SEED=\(seed)")
            if case .text(let merged)? = combined, let string = merged.string {
                let lines = string.split(separator: "\n").map(String.init)
                let new = Set(stored.filter { $0.hasPrefix("n") }).union(incoming.filter { $0.hasPrefix("n") })
                #expect(new.isSubset(of: lines), "ANNALS_SEED=\(seed)")
            }
        }
    }

    private func combine(_ base: String, _ stored: String, _ incoming: String) -> Value? {
        ColumnPolicy.text.combine(base: .text(base), stored: .text(stored), incoming: .text(incoming))
    }
}
