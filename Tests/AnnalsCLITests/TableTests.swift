import AnnalsCore
import Testing

@testable import AnnalsCLI

@Suite("Tables")
struct TableTests {
    @Test("columns are aligned, numbers to the right, and no line ends in blanks")
    func alignment() {
        var table = Table(["id", "name", "note"])
        table.append([.init(7), .init("Ann"), .init("")])
        table.append([.init(1000), .init("Bo"), .init("x")])
        #expect(table.lines(.plain) == ["  id  name  note", "────  ────  ────", "   7  Ann", "1000  Bo    x"])
    }

    @Test("wide characters and combining marks are counted as a terminal shows them")
    func width() {
        #expect(TextWidth.of("abc") == 3)
        #expect(TextWidth.of("日本") == 4)
        #expect(TextWidth.of("e\u{301}") == 1)
        #expect(TextWidth.of("👩‍👩‍👧") == 2)
        var table = Table(["a", "b"])
        table.append([.init("日本"), .init("x")])
        table.append([.init("abcd"), .init("y")])
        #expect(Set(table.lines(.plain).suffix(2).map { TextWidth.of($0) }) == [7])
    }

    @Test("text from a database cannot steer the terminal")
    func controlCharacters() {
        #expect(PrintableText.of("a\u{1B}[2Jb\nc\u{202E}d") == "a\\u{1B}[2Jb\\nc\\u{202E}d")
        var table = Table(["\u{1B}x"])
        table.append([.init("a\tb")])
        #expect(table.lines(.plain) == ["\\u{1B}x", "───────", "a\\tb"])
    }

    @Test("what is too wide is cut, with a mark")
    func cut() {
        #expect(PrintableText.cut("abcdef", to: 4) == "abc…")
        #expect(PrintableText.cut("日本語", to: 4) == "日…")
        #expect(PrintableText.cut("abcd", to: 4) == "abcd")
    }

    @Test("NULL stands apart, and a column of numbers with NULL stays to the right")
    func null() {
        var table = Table(["n"])
        table.append([.init(Value.integer(12))])
        table.append([.init(Value.null)])
        #expect(table.lines(.plain) == ["   n", "────", "  12", "NULL"])
    }

    @Test("a progress line has a bar where the whole is known")
    func progress() {
        #expect(Progress.line("replaying", done: 5, total: 10, unit: .count, seconds: 2.4) == "replaying ████████████░░░░░░░░░░░░ 50 % 2 s")
        #expect(Progress.line("uploading", done: 1536, total: nil, unit: .bytes, seconds: 0) == "uploading 1.5 KiB 0 s")
    }
}
