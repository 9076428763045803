/// Why a request came to no answer. An answer with a status such as 404 is no error: it is a response.
///
/// `HTTPClient.init` throws it. What an agent meets on its way to a relay is told as `AnnalsError`.
///
///     do {
///         let client = try HTTPClient()
///         await client.shutdown()
///     } catch {
///         print(error.kind, error.message)
///     }
///
/// A message names the host at most: never a header, a body, a path or a query.
public struct HTTPError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Nothing listens at the address, or it did not accept the connection within the connect timeout.
        case cannotConnect
        /// The host has no address.
        case cannotResolve
        /// The request took longer than its own `timeout`.
        case timeout
        /// The connection moved no byte for the request's `stallTimeout`.
        case stalled
        /// The certificate was not accepted, or the handshake failed.
        case tls
        /// Not an http or https address, or one with a user name or password in it.
        case badURL
        /// The method or a header has characters that HTTP does not allow, or sets what the body decides.
        case badRequest
        /// The answer is larger than the caller or `HTTPLimits` allows.
        case tooLarge
        /// The task, or the reader of a stream, gave up.
        case cancelled
        /// What came back is not HTTP, or contradicts the request.
        case protocolError
        /// The client was shut down.
        case closed
        /// The connection broke while the request was sent.
        case sendFailed
        /// The connection broke before the answer was whole.
        case receiveFailed
        /// A file on this machine could not be read or written; `systemError` says why.
        case localFile
        /// More requests wait than `HTTPLimits.waitingTransfers`.
        case overloaded
    }

    public var kind: Kind
    public var message: String
    /// Whether the server may have seen the request, or a part of it. When false, nothing happened there.
    public var wasSent: Bool
    /// What is wrong with a certificate that was not accepted, or with those to trust.
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
