import Foundation
import Synchronization

/// A folder for files that are not needed after the run. It is in memory if the system has a folder in memory.
///
/// All runs of one process have their folders in one folder with the process's number. The next process removes what a killed
/// process left.
final class SimulationFolder {
    let path: String

    private static let name = "annals-simulate-"
    private static let count = Atomic<Int>(0)
    /// The parent must not be removed while a folder is created in it.
    private static let turn = Mutex(())
    private static let parent: Result<String, any Error> = Result {
        let memory = "/dev/shm"
        let base = FileManager.default.isWritableFile(atPath: memory) ? memory : FileManager.default.temporaryDirectory.path
        removeLeftovers(in: base)
        let parent = "\(base)/\(name)\(getpid())"
        try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        return parent
    }

    init() throws {
        let number = Self.count.add(1, ordering: .relaxed).newValue
        let path = "\(try Self.parent.get())/\(number)"
        try Self.turn.withLock { _ in try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
        self.path = path
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    deinit {
        Self.turn.withLock { _ in
            try? FileManager.default.removeItem(atPath: path)
            // The parent is removed only if no other run of this process has a folder in it.
            if let parent = try? Self.parent.get() { rmdir(parent) }
        }
    }

    /// Removes folders of processes that no longer exist.
    private static func removeLeftovers(in base: String) {
        for entry in (try? FileManager.default.contentsOfDirectory(atPath: base)) ?? [] where entry.hasPrefix(name) {
            guard let process = pid_t(entry.dropFirst(name.count)), kill(process, 0) != 0, errno == ESRCH else { continue }
            try? FileManager.default.removeItem(atPath: "\(base)/\(entry)")
        }
    }
}
