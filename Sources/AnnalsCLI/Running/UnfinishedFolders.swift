import Foundation
import Synchronization

/// Folders to remove if the process ends before their creators can. No later command would find them.
enum UnfinishedFolders {
    private static let paths = Mutex<Set<String>>([])

    static func add(_ path: String) {
        paths.withLock { _ = $0.insert(path) }
    }

    /// The folder is complete or removed.
    static func forget(_ path: String) {
        paths.withLock { _ = $0.remove(path) }
    }

    static func removeAll() {
        for path in paths.withLock({ $0 }) { try? FileManager.default.removeItem(atPath: path) }
    }
}
