package import RelayLog
import Synchronization

/// The files of a relay's snapshots, in memory.
package final class MemorySnapshots: SnapshotFiles {
    private let files = Mutex<[String: [UInt8]]>([:])

    package init() {}

    package func create() -> any NewSnapshotFile { Incoming(snapshots: self) }

    package func open(_ name: String) throws -> any KeptSnapshotFile {
        guard let bytes = files.withLock({ $0[name] }) else { throw RelayLogError.storage("there is no snapshot \(name)") }
        return Kept(bytes: bytes)
    }

    package func open(_ name: String, in db: any LogConnection) throws -> any SnapshotBytes { try open(name) }

    package func byteCount(of name: String, in db: any LogConnection) -> Int64? {
        files.withLock { $0[name].map { Int64($0.count) } }
    }

    package func remove(_ name: String) { files.withLock { $0[name] = nil } }

    package func names() -> [String] { files.withLock { Array($0.keys) } }

    package func removeLeftovers(except kept: Set<String>) -> [String] { [] }

    private final class Incoming: NewSnapshotFile {
        private let snapshots: MemorySnapshots
        private let bytes = Mutex<[UInt8]>([])

        init(snapshots: MemorySnapshots) { self.snapshots = snapshots }

        func write(_ more: [UInt8]) { bytes.withLock { $0 += more } }

        func keep(as name: String) {
            let whole = bytes.withLock { $0 }
            snapshots.files.withLock { $0[name] = whole }
        }

        func abandon() { bytes.withLock { $0 = [] } }
    }

    private struct Kept: KeptSnapshotFile {
        let bytes: [UInt8]

        func read(at offset: Int64, count: Int) -> [UInt8] {
            Array(bytes.dropFirst(Int(clamping: offset)).prefix(count))
        }
    }
}
