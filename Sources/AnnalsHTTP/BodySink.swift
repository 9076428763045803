/// The destination of an answer. Only the client's thread uses it: it calls `begin` after the head has arrived,
/// `accept` for every piece of the body, and `finish` exactly once in every case.
protocol BodySink: AnyObject {
    func begin(_ head: ResponseHead) throws(HTTPError)
    func accept(_ piece: UnsafeRawBufferPointer) throws(HTTPError)
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

    func accept(_ piece: UnsafeRawBufferPointer) throws(HTTPError) {
        try body.append(piece)
    }

    func finish(_ outcome: Result<ResponseHead, HTTPError>) {
        promise.fulfil(outcome.map { HTTPResponse(head: $0, body: body.bytes, bodyLength: Int64(body.bytes.count)) })
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
