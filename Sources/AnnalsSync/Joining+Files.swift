import AnnalsCore
import AnnalsStore
import AnnalsWire
import Foundation

/// Files on their way, and what of a transfer outlives the process that began it.
extension Joining {
    /// A folder for files on their way, on the disk where the result will be; gone on every way out but one.
    ///
    /// Where the relay went away in the middle, a packed snapshot in a folder that was noted for a purpose stays there, as it
    /// does when the process is killed: whoever asks for a folder of the same purpose goes on with it.
    ///
    /// - Parameter purpose: takes over what was kept for the same purpose, and notes the folder for it.
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
            throw Self.telling(error)
        }
    }

    static func folder(of path: String) -> String {
        path == ":memory:" ? FileManager.default.temporaryDirectory.path : URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    /// What a download is of: the newest snapshot, or the newest that holds no later position.
    static func purpose(ofDownload description: SpaceDescription, atOrBefore position: Position? = nil) -> String {
        "download \(description.lineage) \(position.map { "\($0)" } ?? "newest")"
    }

    static func purpose(ofJoin lineage: Lineage, _ digest: Digest) -> String {
        "join \(lineage) \(digest)"
    }

    /// Whether the relay is merely away.
    private static func passes(_ error: any Error) -> Bool {
        switch error {
        case let error as TransportError: error.isWorthRetrying
        case let error as AnnalsError: [.relayUnreachable, .relayOverloaded].contains(error.code)
        default: false
        }
    }

    private static func telling(_ error: any Error) -> any Error {
        guard var told = (error as? TransportError)?.annalsError ?? error as? AnnalsError else { return error }
        let kept = "What has come through is kept for a day: run it again, and it goes on from there"
        told.hint = told.hint.map { "\($0). \(kept)" } ?? kept
        return told
    }
}
