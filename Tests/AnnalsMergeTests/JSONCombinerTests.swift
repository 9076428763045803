import AnnalsCore
import AnnalsMerge
import SeededRandom
import Testing

@Suite("Combining JSON objects") struct JSONCombinerTests {
    @Test(
        "Keys that one side changed have its value, at every depth",
        arguments: [
            (#"{"a":1,"b":2}"#, #"{"a":5,"b":2}"#, #"{"a":1,"b":6}"#, #"{"a":5,"b":6}"#),
            (#"{"a":1}"#, "{}", #"{"a":1,"b":2}"#, #"{"b":2}"#),
            (#"{"a":{"x":1,"y":2}}"#, #"{"a":{"x":9,"y":2}}"#, #"{"a":{"x":1}}"#, #"{"a":{"x":9}}"#),
            ("{}", #"{"a":{"x":1}}"#, #"{"a":{"y":2}}"#, #"{"a":{"x":1,"y":2}}"#),
            (#"{"n":1}"#, #"{"n":12345678901234567890123}"#, #"{"n":1,"m":-0.50}"#, #"{"n":12345678901234567890123,"m":-0.50}"#),
            (#"{"z":1,"a":1}"#, #"{"z":1,"a":2}"#, #"{"a":1,"z":3}"#, #"{"z":3,"a":2}"#),
            (#"{"a":1}"#, #"{"a":1,"q":"\u0001\"\\\n"}"#, #"{"a":2}"#, #"{"a":2,"q":"\u0001\"\\\n"}"#),
            (#"{"a":1}"#, #"{"a":2,"b":1}"#, #"{"a":2,"c":1}"#, #"{"a":2,"b":1,"c":1}"#),
        ])
    func examples(base: String, stored: String, incoming: String, expected: String) {
        #expect(combine(base, stored, incoming) == .text(expected))
    }

    @Test(
        "A key that both changed otherwise, or one removed, makes them not combinable",
        arguments: [
            (#"{"a":1}"#, #"{"a":2}"#, #"{"a":3}"#), (#"{"a":1}"#, "{}", #"{"a":3}"#), (#"{"a":1}"#, #"{"a":{}}"#, #"{"a":[]}"#),
            (#"{"a":[1]}"#, #"{"a":[1,2]}"#, #"{"a":[1,3]}"#), ("[]", "{}", #"{"a":1}"#), ("{}", #"{"a":1,"a":2}"#, #"{"b":1}"#),
            ("{}", #"{"a":1e99999999999999999999}"#, #"{"b":1}"#),
        ])
    func conflicts(base: String, stored: String, incoming: String) {
        #expect(combine(base, stored, incoming) == nil)
    }

    @Test("Without a base it is the empty object")
    func noBase() {
        #expect(ColumnPolicy.json.combine(base: nil, stored: .text(#"{"a":1}"#), incoming: .text(#"{"b":2}"#)) == .text(#"{"a":1,"b":2}"#))
    }

    @Test("Key by key it is what one side made of it, and both sides agree; else it is not combinable")
    func properties() {
        Seeds.each(500) { seed, random in
            func object() -> [String: Int] {
                Dictionary(
                    uniqueKeysWithValues: ["a", "b", "c", "d"].compactMap { key in
                        let value = Int.random(in: 0...3, using: &random)
                        return value == 0 ? nil : (key, value)
                    })
            }
            func text(_ object: [String: Int]) -> String {
                "{" + object.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
            }
            let (base, stored, incoming) = (object(), object(), object())
            var expected: [String: Int]? = [:]
            for key in ["a", "b", "c", "d"] {
                let (b, s, i) = (base[key], stored[key], incoming[key])
                if s == i || i == b { expected?[key] = s } else if s == b { expected?[key] = i } else { expected = nil }
                if expected == nil { break }
            }
            let combined = combine(text(base), text(stored), text(incoming))
            #expect(combined.map(pairs) == expected, "ANNALS_SEED=\(seed)")
            #expect(combine(text(base), text(incoming), text(stored)).map(pairs) == expected, "ANNALS_SEED=\(seed)")
        }
    }

    private func pairs(_ value: Value) -> [String: Int] {
        guard case .text(let text) = value, let string = text.string else { return [:] }
        return Dictionary(
            uniqueKeysWithValues: string.dropFirst().dropLast().split(separator: ",").compactMap { member in
                let parts = member.split(separator: ":")
                return Int(parts[1]).map { (String(parts[0].dropFirst().dropLast()), $0) }
            })
    }

    private func combine(_ base: String, _ stored: String, _ incoming: String) -> Value? {
        ColumnPolicy.json.combine(base: .text(base), stored: .text(stored), incoming: .text(incoming))
    }
}
