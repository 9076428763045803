/// The bounds of every request, each with its reason. A caller may ask for less, or for more where a parameter
/// says so.
public enum HTTPLimits {
    /// Bytes of status line and header fields in one answer. A relay needs a few hundred.
    package static let headBytes = 64 * 1024

    /// How long name lookup, connecting and the TLS handshake may take together.
    public static let connectTimeout: Duration = .seconds(10)

    /// How long a standing connection may move no byte in either direction. A relay's heartbeats on an event
    /// stream come more often. One byte is enough, since a heartbeat is hardly longer than that; a trickle is
    /// caught by a request's own `timeout` or `slowest`.
    package static let stallTimeout: Duration = .seconds(60)

    /// The least that a large body must move, on average a kibibyte in a second. A slow mobile line has several; a page
    /// that drips is given up after a minute.
    package static let slowestBody = TransferRate(bytes: 60 << 10, in: .seconds(60))

    /// Bytes of an answer that `send` holds in memory, unless the caller gives another bound. A page of entries
    /// is one to four MiB.
    package static let bufferedBody = 8 * 1024 * 1024

    /// Bytes of an answer that refuses a download: a problem document, or some proxy's HTML.
    package static let refusalBody = 256 * 1024

    /// Bytes a download may write to a file, unless the caller gives another bound.
    package static let downloadedFile: Int64 = 1 << 40

    /// Bytes of a streamed answer that wait for their reader before the connection is paused.
    package static let streamBuffer = 512 * 1024

    /// Bodies up to this size are sent together with the request's head, in one piece.
    package static let inlineBody = 64 * 1024

    /// Bytes read from a socket at once.
    package static let receiveBuffer = 64 * 1024

    /// Bytes written to a socket at once.
    package static let sendBuffer = 64 * 1024

    /// Requests under way at once; each may hold one file descriptor and some hundred KiB. Further ones wait
    /// their turn.
    public static let activeTransfers = 128

    /// Requests that may wait for their turn. Beyond it a request fails with `overloaded`.
    package static let waitingTransfers = 4096

    /// Idle connections kept open for the next request.
    package static let idleConnections = 16
}
