/// Talks HTTP over libcurl on a thread of its own, keeps connections for the next request, and moves bodies of
/// any size in flat memory.
///
/// An app needs one of its own only where several stores are to share connections:
///
///     let client = try HTTPClient()
///     let shop = try shopAddress.transport(client: client)
///     let notes = try notesAddress.transport(client: client)
///
/// Redirects are not followed: a relay's address is what the user gave. Proxies come from the environment as
/// with any program that uses libcurl (`https_proxy`, `no_proxy`, …), but never for this machine itself, and an
/// `Authorization` header never goes to one: over plain HTTP such a request is refused. TLS is 1.2 or newer.
///
/// A request that went out over a kept connection, which the server closed at that very moment without an
/// answer, is sent once more over a new one. So whatever is sent must do no harm twice.
///
/// Cancelling the task that waits for a request, or reads a stream, ends the transfer at once, in the middle of
/// a body too. When the call has thrown, nothing of the request happens any more.
public final class HTTPClient: Sendable {
    public struct Configuration: Sendable {
        /// A PEM file of certificates to trust instead of the system's, and instead of those that the environment names
        /// (`CURL_CA_BUNDLE`, `SSL_CERT_FILE`, `SSL_CERT_DIR`).
        public var caFile: String?
        /// The SHA-256 of public keys, as `sha256//` and base64: the server must have one of them, beside a certificate that is
        /// trusted. Empty: any.
        public var pinnedKeys: [String]
        public var userAgent: String
        /// How long name lookup, connecting and the TLS handshake may take together.
        public var connectTimeout: Duration
        /// Requests under way at once. A stream that stays open counts as long as it does.
        public var activeTransfers: Int

        public init(
            caFile: String? = nil, pinnedKeys: [String] = [], userAgent: String = "annals",
            connectTimeout: Duration = HTTPLimits.connectTimeout,
            activeTransfers: Int = HTTPLimits.activeTransfers
        ) {
            precondition(activeTransfers > 0, "a client must be allowed at least one transfer")
            self.caFile = caFile
            self.pinnedKeys = pinnedKeys
            self.userAgent = userAgent
            self.connectTimeout = connectTimeout
            self.activeTransfers = activeTransfers
        }
    }

    let loop: TransferLoop
    private let thread: LoopThread

    /// Starts the client's thread. Throws `closed` when the system has no thread or memory to give.
    public init(_ configuration: Configuration = Configuration()) throws(HTTPError) {
        let loop = try TransferLoop(configuration)
        self.loop = loop
        thread = try LoopThread { loop.run() }
    }

    deinit { loop.requestClose() }

    /// Sends a request and returns the whole answer, whatever its status.
    ///
    /// - Parameters:
    ///   - request: which of them.
    ///   - maximumBody: bytes of the answer's body; beyond them it throws `tooLarge`.
    ///   - onSent: told how many bytes of the request's body have been sent, from 0 on, and from 0 again if the
    ///     request is sent once more. Called on the client's thread, so it must return quickly; never called
    ///     after `send` has returned or thrown.
    package func send(
        _ request: HTTPRequest, maximumBody: Int = HTTPLimits.bufferedBody, onSent: (@Sendable (Int64) -> Void)? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        let promise = ResponsePromise()
        return try await perform(Transfer(request, sink: BufferSink(limit: maximumBody, promise), onSent: onSent), promise)
    }

    /// Sends a request and writes the body of a successful answer (200 or 206) to a file. Any other answer comes
    /// back with its body in memory, and the file stays as it was.
    ///
    /// To go on with a download that broke off, give the number of bytes the file has already: the request then
    /// asks for the rest, and the file begins anew if the server sends everything. Whether the bytes belong
    /// together is the caller's to check, by `If-Range` or a digest.
    ///
    /// - Parameters:
    ///   - request: which of them.
    ///   - file: where the body goes.
    ///   - offset: bytes of the file that stay; the others are cut off.
    ///   - maximumLength: bytes to write; beyond them it throws `tooLarge`.
    ///   - accept: given the answer's headers and how long the whole file will be, before the file is opened. Where it throws, the file stays
    ///     as it was. An answer that does not say how long it is is then refused.
    ///   - onPiece: shown every piece of the body and where in the file it was written, as `onProgress` is.
    ///   - onProgress: told the answer's headers and how long the file is, when the body begins and with every piece; on the
    ///     client's thread, so it must return quickly. By it a caller knows what a download that broke off was of.
    /// - Returns: the answer; its `bodyLength` is what was written now.
    package func download(
        _ request: HTTPRequest, to file: HTTPFile, startingAt offset: Int64 = 0, maximumLength: Int64 = HTTPLimits.downloadedFile,
        accept: HTTPFile.Acceptance? = nil, onPiece: (@Sendable (UnsafeRawBufferPointer, Int64) -> Void)? = nil,
        onProgress: (@Sendable (HTTPHeaders, Int64) -> Void)? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        // The caller's mistake: nothing that comes from a server leads here.
        precondition(offset >= 0, "a file has no bytes before its first")
        var request = request
        if offset > 0 { request.headers.append(("Range", "bytes=\(offset)-")) }
        let promise = ResponsePromise()
        let sink = FileSink(file, start: offset, limit: maximumLength, promise, accept: accept, onPiece: onPiece, onProgress: onProgress)
        return try await perform(Transfer(request, sink: sink), promise)
    }

    /// Sends a request and returns as soon as the answer's head is there; the body is read from the stream.
    package func stream(_ request: HTTPRequest) async throws(HTTPError) -> HTTPStream {
        let promise = Promise<Result<ResponseHead, HTTPError>>()
        let channel = BodyChannel(limit: HTTPLimits.streamBuffer)
        let transfer = try Transfer(request, sink: StreamSink(head: promise, channel: channel))
        let head = try await perform(transfer, promise)
        let body = HTTPBody(lease: StreamLease(channel, transfer, loop, self))
        return HTTPStream(status: head.status, headers: head.headers, body: body)
    }

    /// Ends all transfers with the error `closed`, closes all connections, and ends the client's thread. Later
    /// requests fail with `closed`; later calls return at once.
    public func shutdown() async {
        await loop.close()
        thread.join()
    }

    private func perform<Value>(_ transfer: Transfer, _ promise: Promise<Result<Value, HTTPError>>) async throws(HTTPError) -> Value {
        guard !Task.isCancelled else { throw HTTPError(.cancelled, "the request was cancelled before it began") }
        loop.start(transfer)
        let result = await withTaskCancellationHandler {
            await promise.value
        } onCancel: {
            loop.cancel(transfer)
        }
        return try result.get()
    }
}
