import AnnalsCore
import Foundation

/// Digests of files, read piece by piece.
enum FileDigest {
    private static let pieceBytes = 1 << 20

    /// - Throws: when the file cannot be read.
    static func sha256(_ path: String) throws -> Digest {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        var hasher = Digest.Hasher()
        while let piece = try file.read(upToCount: pieceBytes), !piece.isEmpty {
            piece.withUnsafeBytes { hasher.update($0) }
        }
        return hasher.finish()
    }
}
