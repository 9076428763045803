#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Writes the body of a successful answer to a file, in pieces. The body of any other answer is collected in memory,
/// and the file is not opened.
///
/// A resumed download asks for a range. A server may send the range (206). If it does not support ranges or has another
/// file now, it sends everything (200), and the file is written from its beginning.
final class FileSink: BodySink {
    private let destination: HTTPFile
    private let start: Int64
    private var limit: Int64
    private let acceptance: HTTPFile.Acceptance?
    private let promise: ResponsePromise
    private let onPiece: (@Sendable (UnsafeRawBufferPointer, Int64) -> Void)?
    private let onProgress: (@Sendable (HTTPHeaders, Int64) -> Void)?
    private var headers = HTTPHeaders()
    private var file: OpenFile?
    private var offset: Int64 = 0
    private var written: Int64 = 0
    private var refusal = BoundedBytes(limit: HTTPLimits.refusalBody)

    init(
        _ destination: HTTPFile, start: Int64, limit: Int64, _ promise: ResponsePromise, accept: HTTPFile.Acceptance? = nil,
        onPiece: (@Sendable (UnsafeRawBufferPointer, Int64) -> Void)? = nil, onProgress: (@Sendable (HTTPHeaders, Int64) -> Void)? = nil
    ) {
        acceptance = accept
        self.onPiece = onPiece
        self.onProgress = onProgress
        self.destination = destination
        self.start = start
        self.limit = limit
        self.promise = promise
    }

    func begin(_ head: ResponseHead) throws(HTTPError) {
        switch head.status {
        case 200:
            offset = 0
        case 206:
            guard let range = head.headers["content-range"], range.hasPrefix("bytes \(start)-") else {
                throw HTTPError(.protocolError, "the server sent a range that was not requested")
            }
            offset = start
        default:
            return
        }
        if let announced = head.announcedLength, announced > limit { throw tooLarge }
        if let acceptance {
            guard let whole = wholeLength(head), whole >= offset else {
                throw HTTPError(.protocolError, "the server did not send the length of the file")
            }
            try acceptance(head.headers, whole)
            limit = min(limit, whole - offset)
        }
        let file = try open()
        guard let size = try file.size() else { throw HTTPError(.localFile, "the download's file is not a regular file") }
        guard size >= offset else {
            throw HTTPError(.localFile, "the download's file is shorter than the offset at which to resume")
        }
        try file.truncate(to: offset)
        self.file = file
        headers = head.headers
        onProgress?(headers, offset)
    }

    /// The length of the whole file, not only of the received part.
    private func wholeLength(_ head: ResponseHead) -> Int64? {
        guard head.status == 206 else { return head.announcedLength }
        return head.headers["content-range"]?.split(separator: "/").last.flatMap { Int64($0) }
    }

    func accept(_ piece: UnsafeRawBufferPointer) throws(HTTPError) {
        guard let file else { return try refusal.append(piece) }
        guard Int64(piece.count) <= limit - written else { throw tooLarge }
        try file.write(piece, at: offset + written)
        onPiece?(piece, offset + written)
        written += Int64(piece.count)
        onProgress?(headers, offset + written)
    }

    func finish(_ outcome: Result<ResponseHead, HTTPError>) {
        let length = file == nil ? Int64(refusal.bytes.count) : written
        file = nil
        promise.fulfil(outcome.map { HTTPResponse(head: $0, body: refusal.bytes, bodyLength: length) })
    }

    private func open() throws(HTTPError) -> OpenFile {
        switch destination {
        case .descriptor(let descriptor): OpenFile(borrowing: descriptor)
        case .path(let path): try OpenFile(opening: path, O_WRONLY | O_CREAT, "cannot open the file to download to")
        }
    }

    private var tooLarge: HTTPError {
        HTTPError(.tooLarge, "the answer is larger than \(limit) bytes")
    }
}

/// The destination file of a download.
package enum HTTPFile: Sendable, Hashable {
    /// Checks an answer before anything is written. It gets the headers and the length of the whole file.
    package typealias Acceptance = @Sendable (HTTPHeaders, Int64) throws(HTTPError) -> Void

    /// The file is created if it does not exist, after the server has accepted the request.
    case path(String)
    /// A descriptor that is open for writing. The caller keeps it and closes it after the download has returned. Bytes
    /// are written at their offsets; the descriptor's own offset is not used.
    case descriptor(Int32)
}
