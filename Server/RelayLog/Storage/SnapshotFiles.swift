internal import Foundation

/// Where the bytes of snapshots are kept, by names that the log's records use.
///
/// A record is written after the file it names is durable, so what is recorded is whole; what no record names is a leftover.
/// Calls block.
package protocol SnapshotFiles: Sendable {
    func create() throws -> any NewSnapshotFile

    /// Throws where there is none of this name. What is open stays readable when it is removed.
    func open(_ name: String) throws -> any KeptSnapshotFile

    /// Opens one that is in the state of the log which `db` reads, for as long as it does; also where it is removed by now, if that
    /// can be. Throws where it cannot be read.
    func open(_ name: String, in db: any LogConnection) throws -> any SnapshotBytes

    /// How long one is; nil where there is none of this name. `db` is a connection to the log.
    func byteCount(of name: String, in db: any LogConnection) -> Int64?

    /// Does nothing where there is none of this name.
    func remove(_ name: String)

    /// All that are there, also those that are being written.
    func names() throws -> [String]

    /// Removes what is neither in `kept` nor being written; at the start. Returns the names.
    func removeLeftovers(except kept: Set<String>) throws -> [String]
}

package protocol NewSnapshotFile: Sendable {
    func write(_ bytes: [UInt8]) throws

    /// Makes it durable under its lasting name; then it is open no more.
    func keep(as name: String) throws

    /// Removes what was written.
    func abandon()
}

package protocol SnapshotBytes {
    /// Fewer than `count` only at the file's end.
    func read(at offset: Int64, count: Int) throws -> [UInt8]
}

package protocol KeptSnapshotFile: SnapshotBytes, Sendable {}

/// DATA/snapshots: a file goes by a temporary name while it comes in, and gets its own by one atomic rename.
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
