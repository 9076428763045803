import AnnalsSQLite
import Testing

@Suite struct SQLTokenTests {
    @Test func `comments are left out and quoted names are whole`() {
        let tokens = SQLToken.all(in: "CREATE /* ( */ INDEX\"a \"\"( b\" ON [t )](lower(a), 'it''s (') -- )\n WHERE x>=1.5")
        #expect(
            tokens.map(\.text) == [
                "CREATE", "INDEX", "\"a \"\"( b\"", "ON", "[t )]", "(", "lower", "(", "a", ")", ",", "'it''s ('", ")", "WHERE", "x", ">",
                "=", "1.5",
            ])
        #expect(tokens[2].identifier == "a \"( b")
        #expect(tokens[4].identifier == "t )")
        #expect(tokens[11].identifier == nil)
        #expect(tokens[11].name == "it's (")
    }

    @Test(arguments: ["1", "1.5", ".5", "1.", "1e5", "1.5E-3", "2e+10", "0x1F", "1_000"])
    func `a number is one token`(number: String) {
        let tokens = SQLToken.all(in: "(\(number)-x)")
        #expect(tokens.map(\.text) == ["(", number, "-", "x", ")"])
        #expect(tokens[1].kind == .number)
        #expect(tokens[1].name == nil)
    }

    @Test func `what ends a number is not a part of it`() {
        #expect(SQLToken.all(in: "1-2").map(\.text) == ["1", "-", "2"])
        #expect(SQLToken.all(in: "0x1e+5").map(\.text) == ["0x1e", "+", "5"])
        #expect(SQLToken.all(in: "t.a").map(\.text) == ["t", ".", "a"])
    }

    @Test func `a blob is one token and its x is no name`() {
        let tokens = SQLToken.all(in: "x'0a' X'0B' x 'text'")
        #expect(tokens.map(\.kind) == [.blob, .blob, .word, .string])
        #expect(tokens.map(\.identifier) == [nil, nil, "x", nil])
    }

    @Test func `a variable is no name`() {
        let tokens = SQLToken.all(in: "? ?1 :a @a $a a$b")
        #expect(tokens.map(\.text) == ["?", "?1", ":a", "@a", "$a", "a$b"])
        #expect(tokens.map(\.name) == [nil, nil, nil, nil, nil, "a$b"])
    }

    @Test func `characters beyond ASCII do not join with quotes`() {
        let tokens = SQLToken.all(in: "\u{FEFF}SELECT \"\u{301}a\"\"\u{301}\", ü\u{301}, '\u{301}'")
        #expect(tokens.map(\.name) == ["SELECT", "\u{301}a\"\u{301}", nil, "ü\u{301}", nil, "\u{301}"])
    }

    @Test(arguments: ["'a", "\"a", "[a", "/* a", "x'a", "-- a", "'", "["])
    func `what is not terminated ends with the text`(sql: String) {
        let tokens = SQLToken.all(in: sql)
        #expect(tokens.count <= 1)
        #expect(tokens.allSatisfy { $0.text == sql })
    }

    @Test func `texts of one statement compare equal in any spelling`() {
        let sql = "CREATE TABLE t(a CHECK(a<1.5 AND a<>X'0A'))"
        #expect(SQLText(sql).checkExpressions == ["a < 1.5 AND a < > X'0A'"])
        #expect(SQLText("A<1.5").comparable == SQLText("\"a\" < /* */ 1.5").comparable)
        #expect(SQLText("a < 1 .5").comparable != SQLText("a < 1.5").comparable)
    }
}
