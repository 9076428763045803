internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import RelayLog

/// The client failed while its body was read. The connection cannot be used any more, so no answer is sent.
struct BodyFailure: Error {
    let underlying: any Error
}

/// Reads whole bodies. The bytes in memory stay within a budget, and within shares of it for each sender and space.
final class BodyReader: Sendable {
    private let shares: Shares
    private static let capacityAtFirst = 64 << 10
    /// The buffer grows to at most this multiple of the received bytes.
    private static let growth = 8

    init(budget: Int, percents: SharePercents = SharePercents()) {
        shares = Shares(.bodyBytes, total: budget, percents: percents, retryAfterSeconds: 1)
    }

    /// Bytes in memory now.
    var used: Int { shares.used }

    /// Reads the body and runs `use` with it; the bytes count against the budget until `use` returns.
    ///
    /// Throws 413 above `limit`, `.quota` if the budget or a share of it is used up, `BodyFailure` if the client fails.
    func withBody<Value>(
        of request: Request, limit: Int, by taker: Taker = Taker(), _ use: ([UInt8]) async throws -> Value
    ) async throws -> Value {
        let announced = try request.announcedLength(limit: Int64(limit)).map { Int($0) } ?? 0
        var reserved = 0
        defer { shares.give(reserved, by: taker) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(announced, Self.capacityAtFirst))
        var chunks = request.body.makeAsyncIterator()
        while let chunk = try await Self.next(&chunks) {
            let size = bytes.count + chunk.readableBytes
            guard size <= limit else { throw ProblemResponse(.tooLarge, detail: "The limit for this body is \(limit) bytes") }
            // Only received bytes count, so that a Content-Length alone takes no budget from others.
            try shares.take(chunk.readableBytes, by: taker, held: reserved)
            reserved += chunk.readableBytes
            // Doubling the buffer would leave half of a large body unused, and copy it several times.
            if size > bytes.capacity, size <= announced { bytes.reserveCapacity(min(announced, size * Self.growth)) }
            bytes.append(contentsOf: chunk.readableBytesView)
        }
        return try await use(bytes)
    }

    static func next(_ chunks: inout RequestBody.AsyncIterator) async throws -> ByteBuffer? {
        do {
            return try await chunks.next()
        } catch {
            throw BodyFailure(underlying: error)
        }
    }
}
