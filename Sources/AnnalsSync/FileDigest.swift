import AnnalsCore
import Foundation

/// Digests of files, which are read in pieces.
enum FileDigest {
    private static let pieceBytes = 256 << 10

    /// - Parameter range: the range of the file's bytes. nil means all of them.
    /// - Throws: an error if the file cannot be read.
    static func sha256(_ path: String, _ range: Range<Int64>? = nil) throws -> Digest {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        if let range { try file.seek(toOffset: UInt64(range.lowerBound)) }
        var left = range.map { Int($0.count) } ?? .max
        var hasher = Digest.Hasher()
        while left > 0, let piece = try file.read(upToCount: min(pieceBytes, left)), !piece.isEmpty {
            piece.withUnsafeBytes { hasher.update($0) }
            left -= piece.count
        }
        return hasher.finish()
    }
}

/// The digest of a file, computed while pieces are written to it, from the beginning on.
struct RunningDigest: Sendable {
    private var hasher = Digest.Hasher()
    private var count: Int64 = 0
    private var isWhole = true

    /// Adds a piece that is written at an offset. A piece at offset 0 restarts the digest. Bytes that were added before
    /// are not added again.
    mutating func take(_ piece: UnsafeRawBufferPointer, at offset: Int64) {
        if offset == 0 { self = RunningDigest() }
        guard offset <= count else {
            isWhole = false
            return
        }
        guard offset + Int64(piece.count) > count else { return }
        hasher.update(UnsafeRawBufferPointer(rebasing: piece.dropFirst(Int(count - offset))))
        count = offset + Int64(piece.count)
    }

    /// nil if the file has bytes that were not added.
    var digest: Digest? { isWhole ? hasher.finish() : nil }
}
