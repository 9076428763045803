/// An answer with a body that is read while it arrives.
///
///     let stream = try await client.stream(request)
///     for try await bytes in stream.body { … }
///
/// If more than `HTTPLimits.streamBuffer` bytes wait to be read, the connection is paused. So memory stays constant for
/// any speed of the server. The transfer ends with the body, when the reading task is cancelled, by `cancel()`, or when
/// the last copy of the stream is released.
package struct HTTPStream: Sendable {
    package let status: Int
    package let headers: HTTPHeaders
    package let body: HTTPBody

    /// Returns the rest of the body at once. It is for short answers, such as a refusal.
    ///
    /// Throws `tooLarge` beyond `limit` bytes and then ends the transfer.
    package func collect(limit: Int = HTTPLimits.refusalBody) async throws(HTTPError) -> [UInt8] {
        var collected: [UInt8] = []
        var iterator = body.makeAsyncIterator()
        while let bytes = try await iterator.next() {
            guard bytes.count <= limit - collected.count else {
                cancel()
                throw HTTPError(.tooLarge, "the answer is larger than \(limit) bytes", wasSent: true)
            }
            collected += bytes
        }
        return collected
    }

    /// Ends the transfer. A reader gets the error `cancelled`.
    package func cancel() { body.lease.cancel() }
}

/// The pieces of a body, in the sizes in which they arrive. Only one task may read them, once.
package struct HTTPBody: AsyncSequence, Sendable {
    package typealias Element = [UInt8]
    package typealias Failure = HTTPError

    let lease: StreamLease

    package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(lease: lease) }

    package struct AsyncIterator: AsyncIteratorProtocol {
        let lease: StreamLease

        /// The next piece, never empty. nil at the end.
        package mutating func next() async throws(HTTPError) -> [UInt8]? {
            try await lease.next()
        }

        package mutating func next(isolation actor: isolated (any Actor)?) async throws(HTTPError) -> [UInt8]? {
            try await lease.next()
        }
    }
}

/// Keeps a streamed transfer and its client alive as long as it may be read.
final class StreamLease: Sendable {
    let channel: BodyChannel
    private let transfer: Transfer
    private let loop: TransferLoop
    private let client: HTTPClient

    init(_ channel: BodyChannel, _ transfer: Transfer, _ loop: TransferLoop, _ client: HTTPClient) {
        self.channel = channel
        self.transfer = transfer
        self.loop = loop
        self.client = client
    }

    deinit { cancel() }

    func cancel() {
        if !channel.isEnded { loop.cancel(transfer) }
    }

    func next() async throws(HTTPError) -> [UInt8]? {
        let result: Result<[UInt8]?, HTTPError> = await withTaskCancellationHandler {
            do throws(HTTPError) {
                return .success(try await channel.next { loop.resume(transfer) })
            } catch {
                return .failure(error)
            }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }
}
