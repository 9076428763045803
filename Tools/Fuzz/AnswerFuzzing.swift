@testable import AnnalsCore
@testable import AnnalsWire

/// The relay's answers to pulls and pushes.
enum AnswerFuzzing {
    static let page = FuzzTarget("page", seeds: pages) { bytes in
        _ = try? Page.decode(bytes)
        let bytes = try Mending.page(bytes)
        let page = try Page.decode(bytes)
        expect(page.encode() == bytes, "a page has one encoding")
        try read(page)
    }

    static let answer = FuzzTarget("answer", seeds: answers) { bytes in
        _ = try? PushAnswer.decode(bytes)
        let bytes = try Mending.answer(bytes)
        let answer = try PushAnswer.decode(bytes)
        expect(try answer.encode() == bytes, "an answer has one encoding")
        if let page = answer.page { try read(page) }
    }

    /// A page with a batch that can be opened.
    private static func page(of batch: [UInt8]) -> Page {
        let count = (try? BatchHeader.parse(batch).certificates.count) ?? 1
        let frame = LogFrame(firstPosition: Position(1), acceptedCount: count, receivedAt: 0, batch: batch)
        return Page(
            lineage: Lineage(high: 1, low: 2), head: Position(9), horizon: .zero, after: .zero, frames: [frame], isLast: false)
    }

    @Sendable private static func pages(_ fixtures: Fixtures) throws -> [[UInt8]] {
        try fixtures.files("page") + fixtures.files("batch").map { page(of: $0).encode() }
    }

    @Sendable private static func answers(_ fixtures: Fixtures) throws -> [[UInt8]] {
        try fixtures.files("answer")
            + fixtures.files("batch").prefix(2).map { batch in
                let push = PushName(replica: .relay, firstCounter: Counter(1), lastDigest: .zero)
                let (lineage, page) = (Lineage(high: 1, low: 2), page(of: batch))
                let outcome = PushAnswer.Outcome.stale(at: Position(3))
                return try PushAnswer(outcome: outcome, to: push, lineage: lineage, head: page.head, receivedAt: 0, page: page).encode()
            }
    }

    private static func read(_ page: Page) throws {
        var next = page.after.next
        for frame in page.frames {
            expect(frame.firstPosition <= next && frame.lastPosition >= next, "frames follow one another")
            expect(frame.position(of: frame.firstIndex) == frame.firstPosition, "a frame begins at its first position")
            next = frame.lastPosition.next
            guard let batch = try? frame.open() else { continue }
            for index in frame.firstIndex..<frame.firstIndex + frame.acceptedCount {
                try? DecodedBody(batch.plain, batch.bodyRange(index)).expectRoundTrip()
            }
        }
        expect(page.lastPosition.next == next && page.lastPosition <= max(page.head, page.after), "a page ends within the log")
    }
}
