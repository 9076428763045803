import CCurl

/// One request from its start to its end.
///
/// `@unchecked Sendable` is safe: before anything in it changes, it is passed to the client's thread. After that only
/// that thread uses it, and libcurl's callbacks run on that thread, too.
final class Transfer: @unchecked Sendable {
    let request: HTTPRequest
    let target: RequestTarget
    private let sink: any BodySink
    private let onSent: (@Sendable (Int64) -> Void)?

    private(set) var handle: EasyHandle?
    private var schedule: Schedule?
    private var source: BodySource?
    private(set) var clock: TransferClock
    private var parser = HeadParser()
    private var head: ResponseHead?
    /// The error of this client inside a callback. libcurl reports it only as "aborted".
    private var failure: HTTPError?
    private var reported: Int64 = -1
    /// The number of the body's bytes that libcurl took last.
    private var taken = 0
    private(set) var wasSent = false
    /// Whether this is the second attempt, over a new connection.
    private(set) var isSecondTry = false

    init(_ request: HTTPRequest, sink: any BodySink, onSent: (@Sendable (Int64) -> Void)? = nil) throws(HTTPError) {
        try request.validate()
        self.request = request
        self.target = try RequestTarget(url: request.url)
        self.sink = sink
        self.onSent = onSent
        clock = TransferClock(start: .now, timeout: request.timeout, stallTimeout: request.stallTimeout, slowest: request.slowest)
    }

    /// Opens the body and prepares a handle. Nothing is sent before the handle is added to libcurl's multi handle.
    func start(
        on handle: EasyHandle, _ schedule: Schedule, _ configuration: HTTPClient.Configuration, _ security: Security
    ) throws(HTTPError) {
        self.handle = handle
        self.schedule = schedule
        guard target.isEncrypted || security.pinnedKeys == nil else {
            throw HTTPError(.badURL, "a pinned key needs an https address")
        }
        source = try BodySource(request.body)
        try handle.prepare(
            request, to: target, body: source, configuration: configuration, security: security, callbacks: .transfer,
            context: Unmanaged.passUnretained(self).toOpaque(), mustConnectAnew: isSecondTry)
    }

    /// Whether the transfer may be repeated: a reused connection broke while the body was sent, before an answer
    /// arrived. Then the server had most likely closed the connection already. libcurl repeats the request itself only
    /// if it notices this earlier.
    func mayTryAgain(after code: CURLcode) -> Bool {
        code == CURLE_SEND_ERROR && failure == nil && !isSecondTry && parser.isUntouched && handle?.isConnectionKept == true
    }

    /// Resets the transfer to its state before the start. Returns the handle.
    func tryAgain() -> EasyHandle? {
        defer { (handle, source) = (nil, nil) }
        isSecondTry = true
        (reported, taken) = (-1, 0)
        clock.disconnect()
        return handle
    }

    /// Ends the transfer with libcurl's result. Returns the handle.
    func finish(_ code: CURLcode) -> EasyHandle? {
        if let failure { return fail(failure) }
        guard code == CURLE_OK else {
            let (systemError, tlsMessage) = (handle?.systemError ?? 0, handle?.tlsMessage ?? "")
            return fail(HTTPError(code, target: target, systemError: systemError, tlsMessage: tlsMessage))
        }
        guard let head else { return fail(HTTPError(.protocolError, "no answer from \(target.name)")) }
        return finish(.success(head))
    }

    /// Ends the transfer with an error. Returns the handle.
    func fail(_ error: HTTPError) -> EasyHandle? {
        var error = error
        error.wasSent = wasSent
        return finish(.failure(error))
    }

    func error(_ verdict: TransferClock.Verdict) -> HTTPError {
        switch verdict {
        case .timeout: HTTPError(.timeout, "the request to \(target.name) timed out")
        case .stalled: HTTPError(.stalled, "the connection to \(target.name) stalled")
        case .tooSlow: HTTPError(.stalled, "the connection to \(target.name) is too slow")
        }
    }

    private func finish(_ outcome: Result<ResponseHead, HTTPError>) -> EasyHandle? {
        defer { (handle, schedule, source) = (nil, nil, nil) }
        sink.finish(outcome)
        return handle
    }

    private func move(_ bytes: Int) {
        guard let schedule else { return }
        clock.move(schedule.now, bytes: bytes)
        if let deadline = clock.deadline { schedule.note(deadline) }
    }
}

/// libcurl calls these on the client's thread.
extension Transfer {
    /// The connection is open, and libcurl is about to send the request.
    func willSend() {
        wasSent = true
        guard let schedule else { return }
        clock.run(schedule.now)
        if let deadline = clock.deadline { schedule.note(deadline) }
    }

    func acceptHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        move(line.count)
        return caught(false) { () throws(HTTPError) in
            guard let head = try parser.accept(line) else { return true }
            self.head = head
            report(sent: source?.inlineBytes.map { Int64($0.count) } ?? source?.offset)
            try sink.begin(head)
            return true
        }
    }

    func acceptBody(_ piece: UnsafeRawBufferPointer) -> Bool {
        move(piece.count)
        return caught(false) { () throws(HTTPError) in
            try sink.accept(piece)
            return true
        }
    }

    /// Returns how many bytes it wrote to the buffer, or nil to abort. libcurl asks for more after it has sent the
    /// earlier bytes, so this method reports those.
    func readBody(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        move(taken)
        guard let source else { return 0 }
        report(sent: source.offset)
        return caught(nil) { () throws(HTTPError) in
            taken = try source.read(into: buffer)
            if source.offset == source.length { clock.waitForAnswer() }
            return taken
        }
    }

    func seekBody(to offset: Int64) -> Bool {
        source?.seek(to: offset) ?? false
    }

    private func report(sent: Int64?) {
        guard let onSent, let sent, sent != reported else { return }
        reported = sent
        onSent(sent)
    }

    private func caught<Value>(_ otherwise: Value, _ body: () throws(HTTPError) -> Value) -> Value {
        do throws(HTTPError) {
            return try body()
        } catch {
            failure = failure ?? error
            return otherwise
        }
    }
}
