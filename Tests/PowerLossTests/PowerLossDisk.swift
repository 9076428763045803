import CPowerLossDisk
import Foundation
import RelayLog
import SeededRandom
import Synchronization

/// A folder whose power can be cut at any of the calls that were made in it: what SQLite and `DurableFiles` do there is written down, and
/// `image` gives what a disk may hold that lost power after so many calls.
///
/// A disk keeps what was synced. Of the rest it keeps any sectors, in any order; of names in a folder that was not synced, it keeps the
/// first changes, as journaling file systems do.
final class PowerLossDisk: Sendable {
    enum Call: Sendable {
        case create(String)
        /// nil: at the end.
        case write(String, Int?, [UInt8])
        case truncate(String, Int)
        case sync(String)
        case rename(String, to: String)
        case remove(String)
        case createFolder(String)
        case syncFolder(String)
    }

    /// What a broken program, or a broken disk, leaves out.
    enum Defect: Sendable { case none, noFileSync, noFolderSync }

    let path: String
    private let calls = Mutex<[Call]>([])
    private let number: Int

    private static let disks = Mutex<[Int: PowerLossDisk]>([:])
    private static let count = Atomic<Int>(0)
    private static let isInstalled: Bool = {
        DurableFiles.observer.withLock { $0 = { call in PowerLossDisk.note(call) } }
        return annals_disk_install { kind, path, offset, bytes, count in
            guard let path else { return }
            let content = UnsafeRawBufferPointer(start: bytes, count: Int(count))
            PowerLossDisk.note(kind, String(cString: path), Int(offset), content)
        } == 0
    }()

    init() throws {
        number = Self.count.add(1, ordering: .relaxed).newValue
        guard Self.isInstalled else { throw CocoaError(.featureUnsupported) }
        path = FileManager.default.temporaryDirectory.appendingPathComponent("annals-power-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        Self.disks.withLock { $0[number] = self }
    }

    /// Forgets what was written down.
    func remove() {
        Self.disks.withLock { $0[number] = nil }
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Calls so far: what is acknowledged now must be there after a loss of power at any later one.
    var callCount: Int { calls.withLock { $0.count } }

    // MARK: What is done

    private static func note(_ kind: Int32, _ path: String, _ offset: Int, _ bytes: UnsafeRawBufferPointer) {
        note(path) { path in
            switch Int(kind) {
            case annals_disk_create: .create(path)
            case annals_disk_write: .write(path, offset, Array(bytes))
            case annals_disk_truncate: .truncate(path, offset)
            case annals_disk_sync: .sync(path)
            case annals_disk_remove: .remove(path)
            case annals_disk_sync_folder: .syncFolder(path)
            default: nil
            }
        }
    }

    private static func note(_ call: DurableFiles.Call) {
        switch call {
        case .create(let path): note(path) { .create($0) }
        case .append(let path, let bytes): note(path) { .write($0, nil, bytes) }
        case .synchronize(let path): note(path) { .sync($0) }
        case .rename(let path, let other): note(path) { .rename($0, to: String(other.dropFirst(path.count - $0.count))) }
        case .remove(let path): note(path) { .remove($0) }
        case .createDirectory(let path): note(path) { .createFolder($0) }
        case .synchronizeDirectory(let path): note(path) { .syncFolder($0) }
        }
    }

    /// - Parameter call: is given the path inside the disk, empty for the disk's own folder.
    private static func note(_ path: String, _ call: (String) -> Call?) {
        let disks = disks.withLock { Array($0.values) }
        guard let disk = disks.first(where: { path == $0.path || path.hasPrefix($0.path + "/") }) else { return }
        guard let call = call(String(path.dropFirst(disk.path.count + 1))) else { return }
        disk.calls.withLock { $0.append(call) }
    }

    // MARK: A loss of power

    /// A folder as it may be when the power goes after so many calls.
    func image(after count: Int, seed: UInt64, _ defect: Defect = .none) throws -> String {
        var disk = LosingDisk()
        for call in calls.withLock({ Array($0.prefix(count)) }) { disk.take(call, defect) }
        let image = "\(path)-image-\(UUID().uuidString)"
        var random = SeededGenerator(seed: seed)
        try disk.lose(into: image, &random)
        return image
    }
}

/// What a disk holds, and what it may forget.
private struct LosingDisk {
    private struct File {
        var durable: [UInt8] = []
        var unsynced: [Change] = []
        /// As programs see it.
        var length = 0
    }

    fileprivate enum Change {
        case write(Int, [UInt8])
        case truncate(Int)
    }

    private enum NameChange {
        case set(String, Int)
        case remove(String)
        case rename(String, to: String)
        case folder(String)

        var folder: String {
            switch self {
            case .set(let path, _), .remove(let path), .rename(_, let path), .folder(let path): LosingDisk.folder(of: path)
            }
        }
    }

    private static let sector = 512

    private var files: [File] = []
    private var names: [String: Int] = [:]
    private var durableNames: [String: Int] = [:]
    private var durableFolders: Set<String> = [""]
    private var unsyncedNames: [NameChange] = []

    private static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }

    mutating func take(_ call: PowerLossDisk.Call, _ defect: PowerLossDisk.Defect) {
        switch call {
        case .create(let path):
            names[path] = files.count
            unsyncedNames.append(.set(path, files.count))
            files.append(File())
        case .write(let path, let offset, let bytes):
            guard let file = names[path] else { return }
            let start = offset ?? files[file].length
            files[file].unsynced.append(.write(start, bytes))
            files[file].length = max(files[file].length, start + bytes.count)
        case .truncate(let path, let length):
            guard let file = names[path] else { return }
            files[file].unsynced.append(.truncate(length))
            files[file].length = length
        case .sync(let path):
            guard let file = names[path], defect != .noFileSync else { return }
            for change in files[file].unsynced { files[file].durable.apply(change) }
            files[file].unsynced = []
        case .rename(let path, let other):
            names[other] = names.removeValue(forKey: path)
            unsyncedNames.append(.rename(path, to: other))
        case .remove(let path):
            names[path] = nil
            unsyncedNames.append(.remove(path))
        case .createFolder(let path):
            unsyncedNames.append(.folder(path))
        case .syncFolder(let folder):
            guard defect != .noFolderSync else { return }
            for change in unsyncedNames where change.folder == folder { persist(change) }
            unsyncedNames.removeAll { $0.folder == folder }
        }
    }

    private mutating func persist(_ change: NameChange) {
        switch change {
        case .set(let path, let file): durableNames[path] = file
        case .remove(let path): durableNames[path] = nil
        case .rename(let path, let other): durableNames[other] = durableNames.removeValue(forKey: path)
        case .folder(let path): durableFolders.insert(path)
        }
    }

    mutating func lose(into image: String, _ random: inout SeededGenerator) throws {
        for folder in Set(unsyncedNames.map(\.folder)).sorted() {
            let changes = unsyncedNames.filter { $0.folder == folder }
            let kept = random.chance(30) ? 0 : Int.random(in: 0...changes.count, using: &random)
            for change in changes.prefix(kept) { persist(change) }
        }
        for folder in durableFolders.sorted() {
            try FileManager.default.createDirectory(atPath: "\(image)/\(folder)", withIntermediateDirectories: true)
        }
        for (name, file) in durableNames.sorted(by: { $0.key < $1.key }) where durableFolders.contains(Self.folder(of: name)) {
            try Data(lost(files[file], &random)).write(to: URL(fileURLWithPath: "\(image)/\(name)"))
        }
    }

    /// What is left of a file: of each change that was not synced any sectors.
    private func lost(_ file: File, _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = file.durable
        let share = random.one(of: [0, 10, 50, 90, 100])
        for change in file.unsynced {
            guard case .write(let start, let content) = change else {
                if random.chance(share) { bytes.apply(change) }
                continue
            }
            var offset = 0
            while offset < content.count {
                let count = min(content.count - offset, Self.sector - (start + offset) % Self.sector)
                if random.chance(share) { bytes.apply(.write(start + offset, Array(content[offset..<offset + count]))) }
                offset += count
            }
        }
        return bytes
    }
}

extension [UInt8] {
    fileprivate mutating func apply(_ change: LosingDisk.Change) {
        switch change {
        case .write(let start, let bytes):
            if count < start { append(contentsOf: repeatElement(0, count: start - count)) }
            replaceSubrange(start..<Swift.min(count, start + bytes.count), with: bytes)
        case .truncate(let length):
            if count > length { removeLast(count - length) } else { append(contentsOf: repeatElement(0, count: length - count)) }
        }
    }
}
