/// The destination of an answer. Only the client's thread uses it: it calls `begin` after the head has arrived,
/// `accept` for every piece of the body, and `finish` exactly once in every case.
protocol BodySink: AnyObject {
    func begin(_ head: ResponseHead) throws(HTTPError)
    /// Accepts a piece. Returns false to pause the connection; then the same piece is offered again.
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

/// Passes the head to a promise, and the body to a channel as it arrives.
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
        // The promise keeps its first value, so this sets it only if no head arrived.
        channel.finish(outcome.map { _ in })
        head.fulfil(outcome)
    }
}

/// Bytes up to a limit. Memory is allocated only for bytes that have arrived.
struct BoundedBytes {
    private(set) var bytes: [UInt8] = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    mutating func append(_ piece: UnsafeRawBufferPointer) throws(HTTPError) {
        guard piece.count <= limit - bytes.count else { throw HTTPError(.tooLarge, "the answer is larger than \(limit) bytes") }
        bytes.append(contentsOf: piece)
    }
}
