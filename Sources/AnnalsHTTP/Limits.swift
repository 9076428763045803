/// The limits of every request, with their reasons. A caller may set a lower limit, or a higher one by a parameter.
public enum HTTPLimits {
    /// The size of the status line and header fields of one answer, in bytes. A relay needs a few hundred.
    package static let headBytes = 64 * 1024

    /// The time limit for name lookup, connection and TLS handshake together.
    public static let connectTimeout: Duration = .seconds(10)

    /// The time limit without a moved byte on an open connection, in either direction. One byte is enough. A request's
    /// own `timeout` or `slowest` ends a connection that moves only a few bytes.
    package static let stallTimeout: Duration = .seconds(60)

    /// The slowest allowed rate of a large body: on average one kibibyte a second. A slow mobile connection has
    /// several. A page that arrives more slowly fails after a minute.
    package static let slowestBody = TransferRate(bytes: 60 << 10, in: .seconds(60))

    /// The largest answer that `send` keeps in memory, in bytes, unless the caller sets another limit. A page of
    /// entries has one to four MiB.
    package static let bufferedBody = 8 * 1024 * 1024

    /// The size of an answer that refuses a download, in bytes: a problem document, or a proxy's HTML.
    package static let refusalBody = 256 * 1024

    /// How many bytes a download may write to a file, unless the caller sets another limit.
    package static let downloadedFile: Int64 = 1 << 40

    /// Bodies up to this size are sent together with the request's head.
    package static let inlineBody = 64 * 1024

    /// How many bytes are read from a socket in one call.
    package static let receiveBuffer = 64 * 1024

    /// How many bytes are written to a socket in one call.
    package static let sendBuffer = 64 * 1024

    /// The largest number of simultaneous requests, without long polls. Each may need one file descriptor and some hundred
    /// KiB. Further requests wait in a queue.
    public static let activeTransfers = 128

    /// The largest number of simultaneous long polls. A request beyond it fails with `overloaded`.
    package static let longPolls = 65_536

    /// The length of the queue. A request beyond it fails with `overloaded`.
    package static let waitingTransfers = 4096

    /// The number of idle connections that are kept open for later requests.
    package static let idleConnections = 16
}
