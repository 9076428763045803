internal import AnnalsCore
internal import Foundation
internal import RelayLog

/// A token that is valid for `/metrics` only, for a collector with no other permission.
struct ScrapeToken: Sendable {
    private let digest: Digest
    /// More bytes than any token has.
    private static let maximumBytes = 4096

    init(_ secret: String) {
        digest = .sha256(Array(secret.utf8)[...])
    }

    /// Reads it from a file. Throws `AnnalsError` with `.configuration`.
    init(file path: String) throws(AnnalsError) {
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.read(upToCount: Self.maximumBytes) else {
            throw AnnalsError(
                .configuration, operation: "relay", "the file \(path) with the metrics token cannot be read",
                hint: "Check its path and its permissions")
        }
        let secret = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard secret.utf8.count >= 16, secret.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw AnnalsError(
                .configuration, operation: "relay", "\(path) does not contain a token",
                hint: "Write one word of at least 16 characters into it, for example the output of openssl rand -hex 32")
        }
        self.init(secret)
    }

    func matches(_ secret: String) -> Bool {
        TokenStore.isEqual(Digest.sha256(Array(secret.utf8)[...]).bytes, digest.bytes)
    }
}
