/// Why a request got no complete answer. An answer with an error status such as 404 is a response and not an
/// `HTTPError`.
///
/// `HTTPClient.init` throws it. An agent reports errors between it and the relay as `AnnalsError`.
///
///     do {
///         let client = try HTTPClient()
///         await client.shutdown()
///     } catch {
///         print(error.kind, error.message)
///     }
///
/// A message may contain the host, but never a header, a body, a path or a query.
public struct HTTPError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// No server accepts connections at the address, or it did not accept the connection within the connect
        /// timeout.
        case cannotConnect
        /// The host name has no address.
        case cannotResolve
        /// The request took longer than its own `timeout`.
        case timeout
        /// No byte moved on the connection for the request's `stallTimeout`, or bytes moved too slowly.
        case stalled
        /// The certificate was not accepted, or the handshake failed.
        case tls
        /// The address is not an http or https address, or it contains a user name or password.
        case badURL
        /// The method or a header has characters that HTTP does not allow, or a header is one that the client sets.
        case badRequest
        /// The answer is larger than the caller or `HTTPLimits` allows.
        case tooLarge
        /// The task that waited for the request was cancelled.
        case cancelled
        /// The answer is not HTTP, or contradicts the request.
        case protocolError
        /// The client was shut down.
        case closed
        /// The connection broke while the request was sent.
        case sendFailed
        /// The connection broke before the answer was complete.
        case receiveFailed
        /// A file on this machine could not be read or written. `systemError` has the reason.
        case localFile
        /// More requests than `HTTPLimits.waitingTransfers` are waiting.
        case overloaded
    }

    public var kind: Kind
    public var message: String
    /// Whether the server may have seen the request or a part of it. If false, the request had no effect.
    public var wasSent: Bool
    /// The problem with the server's certificate or with the trusted certificates.
    public var certificate: CertificateProblem?
    /// The `errno` behind a `localFile` error, such as `ENOSPC`.
    public var systemError: Int32?

    package init(_ kind: Kind, _ message: String, wasSent: Bool = false, certificate: CertificateProblem? = nil, systemError: Int32? = nil)
    {
        self.kind = kind
        self.message = message
        self.wasSent = wasSent
        self.certificate = certificate
        self.systemError = systemError
    }

    public var description: String { message }
}
