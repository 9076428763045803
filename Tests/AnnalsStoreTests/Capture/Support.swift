import Foundation
import GRDB

@testable import AnnalsStore

/// GRDB has a type of that name too.
typealias TableDefinition = AnnalsStore.TableDefinition

/// A SQLite file of its own in a temporary folder, removed with the object.
final class TemporaryFile {
    let folder: URL
    var path: String { folder.appendingPathComponent("store.db").path }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    /// A connection with GRDB's settings, as the product opens one.
    func queue() throws -> DatabaseQueue {
        try DatabaseQueue(path: path)
    }

    /// Runs statements as another program does: the sqlite3 shell in a process of its own. Returns what it prints.
    @discardableResult
    func shell(_ sql: String, stopsAtError: Bool = true) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["sqlite3", "-batch"] + (stopsAtError ? ["-bail"] : []) + [path]
        let input = Pipe()
        let output = Pipe()
        let errors = Pipe()
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        // A reader of its own, or both sides wait once a pipe is full.
        let writing = Thread {
            input.fileHandleForWriting.write(Data(sql.utf8))
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 || !stopsAtError else { throw ShellError(complaint: complaint) }
        return String(decoding: printed, as: UTF8.self)
    }
}

struct ShellError: Error {
    var complaint: String
}
