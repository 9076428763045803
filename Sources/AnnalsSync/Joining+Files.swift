import AnnalsCore
import AnnalsStore
import AnnalsWire
import Foundation

/// Temporary files, and the parts of a transfer that are kept after the process has ended.
extension Joining {
    /// Runs `body` with a temporary folder on the disk of the result. The folder is removed at the end, with one
    /// exception.
    ///
    /// The exception: the relay becomes unreachable, and the folder has a packed snapshot and a noted purpose. Then the
    /// snapshot stays, as it does when the process is killed. The next call with the same purpose continues with it.
    ///
    /// - Parameter purpose: takes over a folder that was kept for the same purpose, and notes the purpose of the
    ///   folder.
    func withTemporaryFolder<T>(beside path: String, for purpose: String? = nil, _ body: (WorkFolder) async throws -> T) async throws -> T {
        let parent = Self.folder(of: path)
        let kept = purpose.flatMap { WorkFolder(keptIn: parent, for: $0) }
        let folder = try kept ?? WorkFolder(in: parent)
        if kept == nil, let purpose { folder.note(purpose) }
        do {
            let result = try await body(folder)
            folder.remove()
            return result
        } catch {
            guard Self.passes(error), folder.leave() else {
                folder.remove()
                throw error
            }
            throw Self.withResumeHint(error)
        }
    }

    static func folder(of path: String) -> String {
        path == ":memory:" ? FileManager.default.temporaryDirectory.path : URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    /// The purpose of a download: the newest snapshot, or the newest snapshot that is not after a position.
    static func purpose(ofDownload description: SpaceDescription, atOrBefore position: Position? = nil) -> String {
        "download \(description.lineage) \(position.map { "\($0)" } ?? "newest")"
    }

    static func purpose(ofJoin lineage: Lineage, _ digest: Digest) -> String {
        "join \(lineage) \(digest)"
    }

    /// Whether the relay is only unreachable or overloaded.
    private static func passes(_ error: any Error) -> Bool {
        switch error {
        case let error as TransportError: error.isWorthRetrying
        case let error as AnnalsError: [.relayUnreachable, .relayOverloaded].contains(error.code)
        default: false
        }
    }

    private static func withResumeHint(_ error: any Error) -> any Error {
        guard var hinted = (error as? TransportError)?.annalsError ?? error as? AnnalsError else { return error }
        let kept = "The transferred part is kept for a day."
        hinted.add(hint: "\(kept) Do the same again to resume", commandHint: "\(kept) Run the command again to resume")
        return hinted
    }
}
