import AnnalsCore
import Foundation
import RelayTestSupport
import Testing

@testable import RelayLog

/// Only one process at a time serves a directory.
@Suite struct DirectoryLockTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.path + "/relay.lock" }

    init() throws {
        directory = try TemporaryDirectory()
    }

    @Test(.filesOnly) func `a lock that is held is refused, and one that was released is free`() throws {
        let lock = try DirectoryLock(path: path)
        let refusal = #expect(throws: (any Error).self) { try DirectoryLock(path: path) }
        #expect(try DirectoryLock.isHeldElsewhere(#require(refusal)))
        lock.release()
        lock.release()
        try DirectoryLock(path: path).release()
    }

    /// A process that was forked and has not started its own program yet has such copies.
    @Test(.filesOnly) func `a released lock is free though a copy of its descriptor is open`() throws {
        let lock = try DirectoryLock(path: path)
        let copies = try descriptors(of: path).map { dup($0) }
        defer { for copy in copies { close(copy) } }
        try #require(copies.count == 1)
        lock.release()
        try DirectoryLock(path: path).release()
    }

    @Test(.filesOnly) func `a folder that was moved is not served, and can be copied again`() async throws {
        let folder = directory.path + "/relay"
        let database = try RelayDatabase(directory: folder)
        try database.markAsMoved()
        try database.markAsMoved()
        let error = #expect(throws: AnnalsError.self) { try database.lockForServing() }
        #expect(error?.code == .configuration && error?.hint?.contains(folder + "/relay.moved") == true)
        try database.lockForServing(copying: true)?.release()
        try FileManager.default.removeItem(atPath: folder + "/relay.moved")
        try database.lockForServing()?.release()
        try database.close()
    }

    private func descriptors(of path: String) throws -> [Int32] {
        var file = stat()
        try #require(stat(path, &file) == 0)
        return (3..<getdtablesize()).filter { descriptor in
            var opened = stat()
            return fstat(descriptor, &opened) == 0 && opened.st_ino == file.st_ino && opened.st_dev == file.st_dev
        }
    }
}
