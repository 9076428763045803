import AnnalsCore
import Foundation

/// Digests of files, read piece by piece.
enum FileDigest {
    private static let pieceBytes = 256 << 10

    /// - Parameter range: of the file's bytes; all of them where none is given.
    /// - Throws: when the file cannot be read.
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

/// The digest of a file whose pieces are seen as they are written to it, from its beginning on.
struct RunningDigest: Sendable {
    private var hasher = Digest.Hasher()
    private var count: Int64 = 0
    private var isWhole = true

    /// Takes a piece that is written at an offset; one at the beginning begins anew, and what was taken before counts once.
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

    /// nil where pieces were written that this has not seen.
    var digest: Digest? { isWhole ? hasher.finish() : nil }
}
