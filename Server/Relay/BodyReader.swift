internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import RelayLog

/// The sender's side failed while its body was read. The connection is of no more use, so this is no problem to answer.
struct BodyFailure: Error {
    let underlying: any Error
}

/// Reads bodies whole, and never holds more of them at once than its budget, nor of one sender's or space's than their shares.
final class BodyReader: Sendable {
    private let shares: Shares
    private static let capacityAtFirst = 64 << 10
    /// Room that is made for what was announced, in multiples of what has come.
    private static let growth = 8

    init(budget: Int, percents: SharePercents = SharePercents()) {
        shares = Shares(.bodyBytes, total: budget, percents: percents, retryAfterSeconds: 1)
    }

    /// Bytes that are held now.
    var used: Int { shares.used }

    /// Reads the body and runs `use` with it; its bytes count against the budget until then.
    ///
    /// Throws 413 beyond `limit`, `.quota` where the budget or a share of it is used up, `BodyFailure` where the sender failed.
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
            guard size <= limit else { throw ProblemResponse(.tooLarge, detail: "Bodies may have \(limit) bytes here") }
            // Only what has come counts: an announcement alone takes nothing from others.
            try shares.take(chunk.readableBytes, by: taker, held: reserved)
            reserved += chunk.readableBytes
            // Doubling would leave half of a large body unused, and copy it on the way.
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
