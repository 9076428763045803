import Foundation

/// One request through a URLSession, from its start to its end.
///
/// `@unchecked Sendable` is safe: before anything in it changes, it is passed to the loop's queue. After that only that
/// serial queue uses it.
final class Transfer: @unchecked Sendable {
    let request: HTTPRequest
    private let url: URL
    private let sink: any BodySink
    private let onSent: (@Sendable (Int64) -> Void)?

    var task: URLSessionTask?
    private var head: ResponseHead?
    /// Only for the rate. The session itself detects a stall, and the loop the timeout.
    private var clock: TransferClock
    private(set) var hasEnded = false

    init(_ request: HTTPRequest, sink: any BodySink, onSent: (@Sendable (Int64) -> Void)? = nil) throws(HTTPError) {
        try request.validate()
        guard let url = URL(string: request.url), url.scheme == "http" || url.scheme == "https" else {
            throw HTTPError(.badURL, "the address must begin with http:// or https://")
        }
        guard url.host?.isEmpty == false else { throw HTTPError(.badURL, "the address names no host") }
        guard url.user == nil, url.password == nil else {
            throw HTTPError(.badURL, "the address must not contain a user name or password; use a token instead")
        }
        self.request = request
        self.url = url
        self.sink = sink
        self.onSent = onSent
        clock = TransferClock(start: .now, timeout: nil, stallTimeout: nil, slowest: request.slowest)
        clock.run(.now)
    }

    /// The server's name in messages. The whole address may contain a secret.
    var server: String { (url.host ?? "") + (url.port.map { ":\($0)" } ?? "") }

    /// The request for URLSession. The whole body is read into memory, because a replica sends at most some mebibytes
    /// at once.
    func makeRequest() throws(HTTPError) -> URLRequest {
        var made = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalAndRemoteCacheData)
        made.httpMethod = request.method
        made.timeoutInterval = request.stallTimeout.map { $0 / .seconds(1) } ?? .infinity
        made.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        for header in request.headers { made.addValue(header.value, forHTTPHeaderField: header.name) }
        if let source = try BodySource(request.body) {
            var body = Data(count: Int(source.length))
            var offset = 0
            while offset < body.count {
                let read = body.withUnsafeMutableBytes { bytes in
                    Result { () throws(HTTPError) in try source.read(into: UnsafeMutableRawBufferPointer(rebasing: bytes[offset...])) }
                }
                offset += try read.get()
            }
            made.httpBody = body
        }
        return made
    }

    // MARK: Called by the session, on the loop's queue

    func noteSent(_ bytes: Int, _ total: Int64, of expected: Int64) {
        clock.move(.now, bytes: bytes)
        if total >= expected { clock.waitForAnswer() }
        onSent?(total)
    }

    /// Whether the bytes move too slowly.
    var isTooSlow: Bool { !hasEnded && clock.verdict(.now) == .tooSlow }

    /// - Throws: the reason why the answer is refused.
    func begin(_ response: URLResponse) throws(HTTPError) {
        guard let response = response as? HTTPURLResponse else {
            throw HTTPError(.protocolError, "no answer from \(server)", wasSent: true)
        }
        let fields = response.allHeaderFields.compactMap { name, value in
            (name as? String).map { HTTPHeaders.Field(name: $0, value: "\(value)") }
        }
        let head = ResponseHead(status: response.statusCode, headers: HTTPHeaders(fields))
        self.head = head
        try sink.begin(head)
    }

    /// - Throws: the reason why the piece is refused.
    func accept(_ data: Data) throws(HTTPError) {
        clock.move(.now, bytes: data.count)
        let taken = data.withUnsafeBytes { bytes in Result { () throws(HTTPError) in try sink.accept(bytes) } }
        try taken.get()
    }

    /// Called when the session is done.
    func complete(_ error: (any Error)?) {
        if let error {
            finish(.failure(Self.translate(error, server, hasHead: head != nil)))
        } else if let head {
            finish(.success(head))
        } else {
            finish(.failure(HTTPError(.protocolError, "no answer from \(server)", wasSent: true)))
        }
    }

    func finish(_ outcome: Result<ResponseHead, HTTPError>) {
        guard !hasEnded else { return }
        hasEnded = true
        sink.finish(outcome)
    }

    /// If it is not known whether the server has seen the request, `wasSent` is true.
    private static func translate(_ error: any Error, _ server: String, hasHead: Bool) -> HTTPError {
        let code = (error as? URLError)?.code
        switch code {
        case .cannotConnectToHost?, .notConnectedToInternet?:
            return HTTPError(.cannotConnect, "cannot connect to \(server)")
        case .cannotFindHost?, .dnsLookupFailed?:
            return HTTPError(.cannotResolve, "\(server) has no address")
        case .timedOut?:
            return HTTPError(.stalled, "the connection to \(server) stalled", wasSent: true)
        case .cancelled?:
            return HTTPError(.cancelled, "the request was cancelled", wasSent: true)
        case .serverCertificateHasBadDate?: return untrusted(.expired, server)
        case .serverCertificateNotYetValid?: return untrusted(.notYetValid, server)
        case .serverCertificateUntrusted?, .serverCertificateHasUnknownRoot?: return untrusted(.unknownIssuer, server)
        case .secureConnectionFailed?:
            return HTTPError(.tls, "cannot open a secure connection to \(server)")
        default:
            let kind: HTTPError.Kind = hasHead ? .receiveFailed : .sendFailed
            return HTTPError(kind, "the connection to \(server) broke", wasSent: true)
        }
    }

    private static func untrusted(_ problem: CertificateProblem, _ server: String) -> HTTPError {
        HTTPError(.tls, problem.text(server, ""), certificate: problem)
    }
}
