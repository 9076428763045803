import AnnalsCore
import AnnalsWire
import Testing

@testable import Simulation

/// The oracle judges the product, so here it is judged itself: each of its checks must fail where the rows are wrong.
@Suite("The oracle sees what is wrong")
struct OracleTests {
    typealias Small = SmallSchema

    // MARK: Constraints

    static let broken: [(String, Rows)] = [
        ("is NULL", Small.rows([[.text("a"), .null, .null]])),
        ("CHECK", Small.rows([Small.row("a", 3)])),
        ("twice in UNIQUE", Small.rows([Small.row("a", 1, "x"), Small.row("b", 1, "x ")])),
        ("refers to", Small.rows([Small.row("a", 1)], [[.integer(1), .text("b")]])),
    ]

    @Test("Rows that break a constraint are told", arguments: broken)
    func constraints(name: String, rows: Rows) {
        let violation = #expect(throws: Violation.self) { try Constraints(schema: Small.schema).check(rows) }
        #expect(violation?.law == "law 4")
        #expect(violation?.text.contains(name) == true)
    }

    @Test("Rows that keep all of them pass, by the collations of their columns")
    func kept() throws {
        let parents = [Small.row("a", 1, "x"), Small.row("b", 1, "X"), Small.row("c", 2)]
        let rows = Small.rows(parents, [[.integer(1), .text("A")], [.integer(2), .null]])
        try Constraints(schema: Small.schema).check(rows)
    }

    // MARK: Verbatim

    static let stored = Small.rows([Small.row("a", 1, "x"), Small.row("b", 2)])

    static let unfitting: [Change] = [
        Small.change("t1", .insert(Small.row("A", 9))),
        Small.change("t1", .delete(Small.row("c", 1))),
        Small.change("t1", .delete(Small.row("a", 2, "x"))),
        Small.update("c", 1, .integer(1), .integer(2)),
        Small.update("a", 1, .integer(7), .integer(2)),
        Small.update("a", 1, .real(1), .integer(2)),
        Small.update("a", 0, .text("a"), .text("B")),
        Small.change("t9", .insert([])),
    ]

    @Test("A change that does not fit the rows is told", arguments: unfitting)
    func verbatim(change: Change) {
        let violation = #expect(throws: Violation.self) {
            var rows = Self.stored
            try rows.apply([change], Small.schema)
        }
        #expect(violation?.law == "law 3")
    }

    @Test("Two rows may exchange their keys in one transaction")
    func exchange() throws {
        var rows = Self.stored
        try rows.apply([Small.update("a", 0, .text("a"), .text("b")), Small.update("b", 0, .text("b"), .text("a"))], Small.schema)
        #expect(rows == Small.rows([Small.row("b", 1, "x"), Small.row("a", 2)]))
    }

    @Test("Rows differ where storage class or bytes do, and keys are found by their collation")
    func differences() {
        let other = Small.rows([Small.row("A", 1, "x"), Small.row("b", 2)])
        #expect(other != Self.stored)
        #expect(Self.stored.differences(to: other).map(\.text) == ["t1 ('a', 1, 'x') → ('A', 1, 'x')"])
        #expect(Self.stored.differences(to: Small.rows([Small.row("b", 2), Small.row("c", 1)])).count == 2)
    }

    // MARK: The log

    @Test("The log is applied entry by entry, and every position has its rows")
    func log() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        try oracle.absorb([Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(1), .null]])])
        try oracle.absorb([
            Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(1), .null]]),
            Small.frame(2, transaction: 2, inserting: [[.text("b"), .integer(1), .null]]),
        ])
        #expect(oracle.head == 2)
        #expect(oracle.rows(at: 0) == Rows())
        #expect(oracle.rows(at: 1) == Small.rows([Small.row("a", 1)]))
        #expect(oracle.rows(at: 2) == Small.rows([Small.row("a", 1), Small.row("b", 1)]))
    }

    @Test("A transaction that stands twice in the log is told (law 7)")
    func twice() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        try oracle.absorb([Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(1), .null]])])
        let violation = #expect(throws: Violation.self) {
            try oracle.absorb([Small.frame(2, transaction: 1, inserting: [[.text("b"), .integer(1), .null]])])
        }
        #expect(violation?.law == "law 7")
    }

    @Test("An entry that breaks a constraint, a gap and bytes that nobody can read are told")
    func damage() throws {
        var oracle = try Oracle(schema: Small.schema, rows: Rows())
        let breaking = try Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(3), .null]])
        let late = try Small.frame(2, transaction: 1, inserting: [[.text("a"), .integer(1), .null]])
        var damaged = try Small.frame(1, transaction: 1, inserting: [[.text("a"), .integer(1), .null]])
        damaged.batch[damaged.batch.count / 2] ^= 1
        for (frame, law) in [(breaking, "law 4"), (late, "law 3"), (damaged, "law 3")] {
            let violation = #expect(throws: Violation.self) { try oracle.absorb([frame]) }
            #expect(violation?.law == law)
        }
        #expect(oracle.head == 0)
    }

    @Test("An entry that nobody committed is told (law 6), and so is an id given twice (law 7)")
    func ledger() throws {
        var ledger = Ledger()
        let entry = Oracle.Entry(
            position: 1, span: 1...1, replica: Small.identifier(8), base: 0, receivedAt: 0, info: Small.info(1, at: 0), changes: [],
            journal: [])
        #expect(#expect(throws: Violation.self) { try ledger.check(entry) }?.law == "law 6")
        let intent = Ledger.Intent(id: Small.identifier(1), replica: "r0", number: 1, time: .zero, differences: [])
        try ledger.add(intent)
        try ledger.check(entry)
        #expect(#expect(throws: Violation.self) { try ledger.add(intent) }?.law == "law 7")
    }
}
