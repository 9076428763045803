internal import Foundation

/// The storage of snapshot bytes, by the file names in the snapshot records.
///
/// A record is written after its file is durable, so a recorded snapshot is complete. A file without a record is a
/// leftover. All calls block.
package protocol SnapshotFiles: Sendable {
    func create() throws -> any NewSnapshotFile

    /// Throws if there is no file with this name. An open file stays readable after its removal.
    func open(_ name: String) throws -> any KeptSnapshotFile

    /// Opens a file of the log's state that `db` reads, for the duration of that transaction. If possible, it also
    /// opens a file that was removed meanwhile. Throws if the file cannot be read.
    func open(_ name: String, in db: any LogConnection) throws -> any SnapshotBytes

    /// The length of a file; nil if there is none with this name. `db` is a connection to the log.
    func byteCount(of name: String, in db: any LogConnection) -> Int64?

    /// Does nothing if there is no file with this name.
    func remove(_ name: String)

    /// The names of all files, including unfinished ones.
    func names() throws -> [String]

    /// Removes all files that are neither in `kept` nor being written; called at the start. Returns their names.
    func removeLeftovers(except kept: Set<String>) throws -> [String]
}

package protocol NewSnapshotFile: Sendable {
    func write(_ bytes: [UInt8]) throws

    /// Makes the file durable under its final name and closes it.
    func keep(as name: String) throws

    /// Removes the file.
    func abandon()
}

package protocol SnapshotBytes {
    /// Returns fewer bytes than `count` only at the end of the file.
    func read(at offset: Int64, count: Int) throws -> [UInt8]
}

package protocol KeptSnapshotFile: SnapshotBytes, Sendable {}

/// DATA/snapshots: an upload has a temporary name, and one atomic rename gives it the final one.
struct LocalSnapshotFiles: SnapshotFiles {
    let directory: String

    static let temporaryPrefix = "upload-"

    init(in data: String) throws {
        directory = (data as NSString).appendingPathComponent("snapshots")
        try DurableFiles.createDirectory(directory)
    }

    func create() throws -> any NewSnapshotFile {
        let name = Self.temporaryPrefix + String(UInt64.random(in: 0 ... .max), radix: 36)
        return NewFile(directory: directory, file: try DurableFile(creating: path(name)))
    }

    func open(_ name: String) throws -> any KeptSnapshotFile {
        try DurableFile(reading: path(name))
    }

    func open(_ name: String, in db: any LogConnection) throws -> any SnapshotBytes {
        try open(name)
    }

    func byteCount(of name: String, in db: any LogConnection) -> Int64? {
        (try? FileManager.default.attributesOfItem(atPath: path(name)))?[.size] as? Int64
    }

    func remove(_ name: String) {
        DurableFiles.remove(path(name))
    }

    func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory)
    }

    func removeLeftovers(except kept: Set<String>) throws -> [String] {
        let leftovers = try names().filter { !kept.contains($0) }
        for name in leftovers { remove(name) }
        return leftovers
    }

    private func path(_ name: String) -> String {
        (directory as NSString).appendingPathComponent(name)
    }

    private struct NewFile: NewSnapshotFile {
        let directory: String
        let file: DurableFile

        func write(_ bytes: [UInt8]) throws {
            try bytes.withUnsafeBytes { try file.write($0) }
        }

        func keep(as name: String) throws {
            let path = (directory as NSString).appendingPathComponent(name)
            try file.synchronize()
            file.close()
            try DurableFiles.rename(file.path, to: path)
            do {
                try DurableFiles.synchronizeDirectory(directory)
            } catch {
                DurableFiles.remove(path)
                throw error
            }
        }

        func abandon() {
            DurableFiles.remove(file.path)
            file.close()
        }
    }
}

extension DurableFile: KeptSnapshotFile {}
