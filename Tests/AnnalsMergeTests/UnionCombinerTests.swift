import AnnalsCore
import AnnalsMerge
import SeededRandom
import Testing

@Suite("Combining JSON arrays as sets") struct UnionCombinerTests {
    @Test(
        "What either side added is in it, what either side removed is not",
        arguments: [
            ("[1,2,3]", "[1,3]", "[1,2,3,4]", "[1,3,4]"), ("[]", #"["a"]"#, #"["b"]"#, #"["a","b"]"#),
            ("[1]", "[]", "[1,2]", "[2]"), (#"[{"a":1,"b":2}]"#, #"[{"b":2,"a":1},5]"#, "[]", "[5]"),
            ("[1]", "[1.0,2]", "[1e0,3]", "[1.0,2,3]"), ("[1]", "[1,2,2]", "[1,3,3]", "[1,2,3]"),
            ("[9007199254740993]", "[9007199254740993,1]", "[9007199254740993,9007199254740992]", "[9007199254740993,1,9007199254740992]"),
            (#"["\u00e9"]"#, #"["é",1]"#, #"["é",2]"#, #"["é",1,2]"#), ("[true]", "[true,null]", "[true,false]", "[true,null,false]"),
        ])
    func examples(base: String, stored: String, incoming: String, expected: String) {
        #expect(combine(base, stored, incoming) == .text(expected))
    }

    @Test("Without a base, or with a NULL one, both sides only added")
    func noBase() {
        #expect(ColumnPolicy.union.combine(base: nil, stored: .text("[1]"), incoming: .text("[2]")) == .text("[1,2]"))
        #expect(ColumnPolicy.union.combine(base: .null, stored: .text("[1]"), incoming: .text("[2]")) == .text("[1,2]"))
    }

    @Test(
        "What is no array is not combinable", arguments: ["{}", "1", "", "[1", "[1,]", "[01]", "[1] 2", "['a']", "[\"\\ud800\"]", "[nan]"])
    func noArray(text: String) {
        #expect(combine("[5]", text, "[6]") == nil)
        #expect(combine("[5]", "[6]", text) == nil)
        #expect(ColumnPolicy.union.combine(base: .text("[1]"), stored: .null, incoming: .text("[2]")) == nil)
    }

    @Test("An array within too many others is not combinable, and costs no stack")
    func depth() {
        let deep = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
        #expect(combine("[]", deep, "[1]") == nil)
    }

    @Test("It is the set that adding and removing by both makes, whatever the sides")
    func properties() {
        Seeds.each(500) { seed, random in
            func set() -> [Int] { (0..<8).filter { _ in Bool.random(using: &random) } }
            func text(_ elements: [Int]) -> String { "[" + elements.map(String.init).joined(separator: ",") + "]" }
            let (base, stored, incoming) = (set(), set(), set())
            let kept = Set(base).intersection(stored).intersection(incoming)
            let expected = kept.union(Set(stored).subtracting(base)).union(Set(incoming).subtracting(base))
            #expect(elements(combine(text(base), text(stored), text(incoming))) == expected, "ANNALS_SEED=\(seed)")
            #expect(elements(combine(text(base), text(incoming), text(stored))) == expected, "ANNALS_SEED=\(seed)")
        }
    }

    private func elements(_ value: Value?) -> Set<Int>? {
        guard case .text(let text)? = value, let string = text.string else { return nil }
        return Set(string.dropFirst().dropLast().split(separator: ",").compactMap { Int($0) })
    }

    private func combine(_ base: String, _ stored: String, _ incoming: String) -> Value? {
        ColumnPolicy.union.combine(base: .text(base), stored: .text(stored), incoming: .text(incoming))
    }
}
