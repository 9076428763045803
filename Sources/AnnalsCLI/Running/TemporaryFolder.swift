import AnnalsCore
import Foundation

/// A folder that only its owner can read. It must be removed on every exit path.
struct TemporaryFolder: Sendable {
    let path: String

    /// Throws `AnnalsError` with `.cannotCreate`.
    init(_ name: String) throws {
        let parent = FileManager.default.temporaryDirectory.path
        path = "\(parent)/\(name)-\(ReplicaID.random().description.prefix(8))"
        UnfinishedFolders.add(path)
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            throw AnnalsError(.cannotCreate, "a folder cannot be created in \(parent)", hint: "Set TMPDIR to a writable folder")
        }
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func remove() {
        try? FileManager.default.removeItem(atPath: path)
        UnfinishedFolders.forget(path)
    }
}
