import AnnalsCore
import AnnalsWire
import Foundation
import Testing

@Suite struct AnswerTests {
    static let lineage = Lineage(high: 0x1122, low: 0x3344)

    static let page = Page(
        lineage: lineage, head: Position(20), horizon: Position(2), after: Position(5),
        frames: [
            LogFrame(firstPosition: Position(4), acceptedCount: 3, receivedAt: 1_700_000_000_000, batch: [1, 2, 3]),
            LogFrame(firstPosition: Position(7), firstIndex: 2, acceptedCount: 1, receivedAt: -5, batch: []),
        ], isLast: false)

    @Test func `a page comes back as it was`() throws {
        #expect(try Page.decode(Self.page.encode()) == Self.page)
        #expect(Self.page.lastPosition == Position(7))
        let empty = Page(lineage: Self.lineage, head: .zero, horizon: .zero, after: .zero, isLast: true)
        #expect(try Page.decode(empty.encode()) == empty)
        #expect(empty.lastPosition == .zero)
    }

    @Test func `a frame says where its batch's transactions are`() {
        let frame = Self.page.frames[1]
        #expect(frame.position(of: 1) == nil)
        #expect(frame.position(of: 2) == Position(7))
        #expect(frame.position(of: 3) == nil)
        #expect(Self.page.frames[0].lastPosition == Position(6))
    }

    @Test func `frames must follow upon one another within the log`() {
        for change: (inout Page) -> Void in [
            { $0.frames[1].firstPosition = Position(8) }, { $0.frames[1].firstPosition = Position(6) },
            { $0.frames[0].firstPosition = Position(7) }, { $0.frames[0].firstPosition = Position(1) }, { $0.head = Position(6) },
        ] {
            var page = Self.page
            change(&page)
            #expect(throws: WireError.badValue("position")) { try Page.decode(page.encode()) }
        }
    }

    @Test(arguments: [
        PushAnswer.Outcome.accepted, .stale(at: Position(12)), .stale(at: nil), .identityConflict, .gap, .logRolledBack,
        .wait(milliseconds: 1_500),
    ])
    func `an answer comes back as it was`(outcome: PushAnswer.Outcome) throws {
        var answer = PushAnswer(
            outcome: outcome, to: Samples.pushName, positions: [Position(3), Position(4), Position(19)], lineage: Self.lineage,
            head: Position(20), receivedAt: 77
        )
        #expect(try PushAnswer.decode(answer.encode()) == answer)
        answer.page = Self.page
        #expect(try PushAnswer.decode(answer.encode()) == answer)
    }

    @Test func `every flipped bit and every truncation is noticed`() throws {
        let page = Page(lineage: Self.lineage, head: Position(9), horizon: .zero, after: Position(8), isLast: true)
        let answer = PushAnswer(
            outcome: .gap, to: Samples.pushName, positions: [Position(1)], lineage: Self.lineage, head: Position(9), receivedAt: 1,
            page: page)
        let bytes = try answer.encode()
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: WireError.self, "bit \(bit)") { try PushAnswer.decode(flipped) }
        }
        for count in 0..<bytes.count {
            #expect(throws: WireError.self, "\(count) bytes") { try PushAnswer.decode(Array(bytes[..<count])) }
        }
        #expect(throws: WireError.badLength) { try PushAnswer.decode(bytes + [0]) }
    }

    @Test func `a newer version is told apart from damage`() {
        var bytes = Self.page.encode()
        bytes[4] = 2
        #expect(throws: WireError.newerVersion(2)) { try Page.decode(bytes) }
        #expect(throws: WireError.badMagic) { try Page.decode(Array("<html>".utf8)) }
    }

    @Test func `descriptions and problems are plain JSON`() throws {
        let space = try #require(SpaceName("shop"))
        let description = SpaceDescription(
            space: space, lineage: Self.lineage, head: Position(20), horizon: .zero,
            snapshot: .init(position: Position(18), bytes: 4_096, digest: Digest.zero.description))
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let json = String(decoding: try encoder.encode(description), as: UTF8.self)
        #expect(
            json.hasPrefix(
                #"{"head":20,"horizon":0,"lineage":"00000000-0000-1122-0000-000000003344","snapshot":{"bytes":4096,"digest":"0000"#))
        #expect(try JSONDecoder().decode(SpaceDescription.self, from: Data(json.utf8)) == description)
        let problem = Problem(.expired, detail: "the log begins at 9", hint: "take the snapshot")
        #expect(try JSONDecoder().decode(Problem.self, from: JSONEncoder().encode(problem)) == problem)
        #expect(problem.status == 410)
        #expect(problem.knownCode == .expired)
    }

    @Test func `addresses are below the space`() throws {
        let space = try #require(SpaceName("shop.1"))
        #expect(Endpoints.push(space) == "/v1/spaces/shop.1/push")
        #expect(Endpoints.snapshot(space) == "/v1/spaces/shop.1/snapshot")
    }

    @Test func `a replica is not told to wait for ever`() throws {
        func answer(_ milliseconds: Int) -> PushAnswer {
            PushAnswer(
                outcome: .wait(milliseconds: milliseconds), to: Samples.pushName, lineage: Self.lineage, head: Position(3), receivedAt: 0)
        }
        let longest = answer(WireLimits.maximumLeaseWaitMilliseconds)
        #expect(try PushAnswer.decode(longest.encode()) == longest)
        #expect(throws: WireError.badValue("wait")) { try PushAnswer.decode(answer(WireLimits.maximumLeaseWaitMilliseconds + 1).encode()) }
        #expect(throws: WireError.badValue("wait")) { try PushAnswer.decode(answer(.max).encode()) }
    }

    @Test func `a mark's position has one behind it`() {
        let digest = Digest.zero
        #expect(LogMark(lineage: Self.lineage, headerValue: "\(WireLimits.maximumPosition)-\(digest)") != nil)
        for position in [WireLimits.maximumPosition + 1, .max, -1] {
            #expect(LogMark(lineage: Self.lineage, headerValue: "\(position)-\(digest)") == nil)
        }
    }

    @Test(arguments: [
        #""head":9223372036854775807,"horizon":0"#, #""head":-1,"horizon":0"#, #""head":7,"horizon":-9223372036854775808"#,
        #""head":7,"horizon":0,"time":9223372036854775807"#, #""head":7,"horizon":0,"snapshot":{"position":-1,"bytes":1,"digest":""}"#,
        #""head":7,"horizon":0,"snapshot":{"position":1,"bytes":-1,"digest":""}"#,
    ])
    func `a description with a number that cannot be is refused`(numbers: String) {
        let json = #"{"space":"shop","lineage":"\#(Self.lineage)",\#(numbers)}"#
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(SpaceDescription.self, from: Data(json.utf8)) }
    }
}
