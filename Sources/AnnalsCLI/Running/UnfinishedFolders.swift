import Foundation
import Synchronization

/// Folders to remove where the process ends before their makers can do it. No later command would know them.
enum UnfinishedFolders {
    private static let paths = Mutex<Set<String>>([])

    static func add(_ path: String) {
        paths.withLock { _ = $0.insert(path) }
    }

    /// It is finished, or gone.
    static func forget(_ path: String) {
        paths.withLock { _ = $0.remove(path) }
    }

    static func removeAll() {
        for path in paths.withLock({ $0 }) { try? FileManager.default.removeItem(atPath: path) }
    }
}
