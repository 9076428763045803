/// Where an answer goes. Each is used by the client's thread only: `begin` once the head is there, `accept` for
/// every piece of the body, and `finish` exactly once, whatever happened before.
protocol BodySink: AnyObject {
    func begin(_ head: ResponseHead) throws(HTTPError)
    /// Takes a piece, or returns false to have the connection paused and the piece offered again.
    func accept(_ piece: UnsafeRawBufferPointer) throws(HTTPError) -> Bool
    func finish(_ outcome: Result<ResponseHead, HTTPError>)
}

typealias ResponsePromise = Promise<Result<HTTPResponse, HTTPError>>

/// Collects the body in memory, up to a limit.
final class BufferSink: BodySink {
    private var body: BoundedBytes
    private let promise: ResponsePromise

    init(limit: Int, _ promise: ResponsePromise) {
        body = BoundedBytes(limit: limit)
        self.promise = promise
    }

    func begin(_ head: ResponseHead) {}

    func accept(_ piece: UnsafeRawBufferPointer) throws(HTTPError) -> Bool {
        try body.append(piece)
        return true
    }

    func finish(_ outcome: Result<ResponseHead, HTTPError>) {
        promise.fulfil(outcome.map { HTTPResponse(head: $0, body: body.bytes, bodyLength: Int64(body.bytes.count)) })
    }
}

/// Hands the head to one promise, and the body to a channel as it comes.
final class StreamSink: BodySink {
    private let head: Promise<Result<ResponseHead, HTTPError>>
    private let channel: BodyChannel

    init(head: Promise<Result<ResponseHead, HTTPError>>, channel: BodyChannel) {
        self.head = head
        self.channel = channel
    }

    func begin(_ head: ResponseHead) {
        self.head.fulfil(.success(head))
    }

    func accept(_ piece: UnsafeRawBufferPointer) -> Bool {
        channel.offer(piece)
    }

    func finish(_ outcome: Result<ResponseHead, HTTPError>) {
        // The promise keeps its first value, so this matters only when no head came.
        channel.finish(outcome.map { _ in })
        head.fulfil(outcome)
    }
}

/// Bytes that never become more than a limit, and never take memory for what was merely announced.
struct BoundedBytes {
    private(set) var bytes: [UInt8] = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    mutating func append(_ piece: UnsafeRawBufferPointer) throws(HTTPError) {
        guard piece.count <= limit - bytes.count else { throw HTTPError(.tooLarge, "the answer is larger than \(limit) bytes") }
        bytes.append(contentsOf: piece)
    }
}
