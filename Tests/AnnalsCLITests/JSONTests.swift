import AnnalsCore
import Testing

@testable import AnnalsCLI

@Suite("JSON")
struct JSONTests {
    @Test("keys keep their order, and integers are exact")
    func orderAndIntegers() {
        let json = JSON.object(["z": .integer(Int64.max), "a": .array([.integer(Int64.min), .null, .bool(true)]), "m": .object([:])])
        #expect(json.description == #"{"z":9223372036854775807,"a":[-9223372036854775808,null,true],"m":{}}"#)
    }

    @Test("text is escaped, and what steers a terminal as well")
    func escapes() {
        #expect(JSON.text("a\"b\\c\n\t\u{1B}[31m\u{7F}\u{2028}é😀").description == #""a\"b\\c\n\t\u001b[31m\u007f\u2028é😀""#)
    }

    @Test(
        "values of SQLite",
        arguments: [
            (Value.null, "null"), (.integer(-1), "-1"), (.real(0.1), "0.1"), (.real(1), "1.0"), (.real(1e300), "1e+300"),
            (.real(.infinity), #"{"real":"inf"}"#), (.real(-.infinity), #"{"real":"-inf"}"#), (.text("é"), #""é""#),
            (.text(ByteString([0xFF, 0x41])), #"{"textBase64":"/0E="}"#), (.blob([0, 255]), #"{"base64":"AP8="}"#),
        ] as [(Value, String)])
    func values(_ value: Value, _ text: String) {
        #expect(JSON.value(value).description == text)
    }
}

@Suite("Times")
struct TimestampTests {
    @Test(
        "are ISO 8601 in UTC with milliseconds",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_709_251_199_001, "2024-02-29T23:59:59.001Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func text(_ milliseconds: Int64, _ expected: String) {
        #expect(Timestamp.text(milliseconds) == expected)
    }
}
