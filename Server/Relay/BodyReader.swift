internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import Synchronization

/// The sender's side failed while its body was read. The connection is of no more use, so this is no problem to answer.
struct BodyFailure: Error {
    let underlying: any Error
}

/// Reads bodies whole, and never holds more of them at once than its budget.
final class BodyReader: Sendable {
    private let budget: Int
    private static let capacityAtFirst = 64 << 10
    /// Room that is made for what was announced, in multiples of what has come.
    private static let growth = 8
    private let used = Mutex(0)

    init(budget: Int) {
        self.budget = budget
    }

    /// Reads the body and runs `use` with it; its bytes count against the budget until then.
    ///
    /// Throws 413 beyond `limit`, 503 where the budget is used up, `BodyFailure` where the sender failed.
    func withBody<Value>(
        of request: Request, limit: Int, _ use: ([UInt8]) async throws -> Value
    ) async throws -> Value {
        let announced = try request.announcedLength(limit: Int64(limit)).map { Int($0) } ?? 0
        var reserved = 0
        defer { release(reserved) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(announced, Self.capacityAtFirst))
        var chunks = request.body.makeAsyncIterator()
        while let chunk = try await Self.next(&chunks) {
            let size = bytes.count + chunk.readableBytes
            guard size <= limit else { throw ProblemResponse(.tooLarge, detail: "Bodies may have \(limit) bytes here") }
            // Only what has come counts: an announcement alone takes nothing from others.
            try reserve(chunk.readableBytes, into: &reserved)
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

    private func reserve(_ count: Int, into reserved: inout Int) throws {
        let fits = used.withLock { used in
            // One body always fits, however small the budget.
            guard used == reserved || used + count <= budget else { return false }
            used += count
            return true
        }
        guard fits else { throw ProblemResponse.unavailable("Too many pushes are being received", retryAfterSeconds: 1) }
        reserved += count
    }

    private func release(_ count: Int) {
        used.withLock { $0 -= count }
    }
}
