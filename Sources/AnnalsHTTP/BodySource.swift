#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The body of a request, read in pieces while it is sent. Only the client's thread uses it.
final class BodySource {
    private enum Origin {
        case bytes([UInt8])
        case file(OpenFile, start: Int64)
    }

    private let origin: Origin
    let length: Int64
    /// The offset of the next piece. Everything before it was passed on.
    private(set) var offset: Int64 = 0

    /// Opens the file, if the body is a file. nil for a request without a body.
    init?(_ body: HTTPRequest.Body) throws(HTTPError) {
        switch body {
        case .none:
            return nil
        case .bytes(let bytes):
            origin = .bytes(bytes)
            length = Int64(bytes.count)
        case .file(let path, let range):
            let file = try OpenFile(opening: path, O_RDONLY, "cannot open the file to send")
            guard let size = try file.size() else { throw HTTPError(.localFile, "the file to send is not a regular file") }
            let range = range ?? 0..<size
            guard range.lowerBound >= 0, range.upperBound <= size else {
                throw HTTPError(.localFile, "the file to send is shorter than the range to send")
            }
            origin = .file(file, start: range.lowerBound)
            length = range.upperBound - range.lowerBound
        }
    }

    /// The whole body, if it is small enough to be sent together with the head.
    var inlineBytes: [UInt8]? {
        guard case .bytes(let bytes) = origin, bytes.count <= HTTPLimits.inlineBody else { return nil }
        return bytes
    }

    /// Copies the next piece. Returns 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPError) -> Int {
        let count = Int(min(Int64(buffer.count), length - offset))
        guard count > 0 else { return 0 }
        let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        switch origin {
        case .bytes(let bytes):
            bytes.withUnsafeBytes { piece.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[Int(offset)..<Int(offset) + count])) }
            offset += Int64(count)
            return count
        case .file(let file, let start):
            let read = try file.read(into: piece, at: start + offset)
            guard read > 0 else { throw HTTPError(.localFile, "the file became shorter while it was sent") }
            offset += Int64(read)
            return read
        }
    }

    /// Moves back when libcurl sends the request again over a new connection. False if the offset is out of range.
    func seek(to offset: Int64) -> Bool {
        guard (0...length).contains(offset) else { return false }
        self.offset = offset
        return true
    }
}
