import Foundation
import Testing

/// The status and the output of a program that has ended.
struct Outcome: Sendable {
    var status: Int32
    var output: String
    var errors: String

    var lines: [String] { output.split(separator: "\n").map(String.init) }
    var errorLines: [String] { errors.split(separator: "\n").map(String.init) }

    /// The whole output as one JSON object.
    func object() throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any], "no JSON object: \(output)")
    }

    /// The output's lines as JSON objects.
    func objects() throws -> [[String: Any]] {
        try lines.map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "no JSON object: \(line)")
        }
    }
}

/// Another process: the built `annals`, the `sqlite3` shell, or another program of a test. It is ended by its id.
final class Program: Sendable {
    /// Because `Process` is only used for its id and its end, and its own queue guards these.
    private let process = Process()
    private let input = Pipe()
    private let folder: String
    private let ended: AsyncStream<Int32>

    /// The longest time that one program may take.
    static let deadline = Duration.seconds(900)

    /// Starts a program. Its output is written to files, so that it never blocks.
    ///
    /// - Parameter directory: The working directory. The output is stored elsewhere.
    init(_ executable: String, _ arguments: [String], in directory: String, environment: [String: String] = [:]) throws {
        folder = FileManager.default.temporaryDirectory.path + "/annals-program-\(UUID())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        for name in ["out", "err"] { try Data().write(to: URL(fileURLWithPath: "\(folder)/\(name)")) }
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [executable] + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: directory)
        let files = try ["out", "err"].map { [folder] in try FileHandle(forWritingTo: URL(fileURLWithPath: "\(folder)/\($0)")) }
        process.standardInput = input
        process.standardOutput = files[0]
        process.standardError = files[1]
        var variables = ProcessInfo.processInfo.environment
        for name in ["NO_COLOR", "ANNALS_CREDENTIAL"] { variables[name] = nil }
        process.environment = variables.merging(environment) { $1 }
        let (stream, continuation) = AsyncStream<Int32>.makeStream(bufferingPolicy: .bufferingNewest(1))
        ended = stream
        process.terminationHandler = { process in
            continuation.yield(process.terminationReason == .exit ? process.terminationStatus : 128 + process.terminationStatus)
            continuation.finish()
        }
        try process.run()
        // Closed explicitly, because Foundation keeps the files of a `Process` open, and many programs would use up all descriptors.
        for file in files + [input.fileHandleForReading] { try file.close() }
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        endInput()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Runs a program until it ends.
    static func run(
        _ executable: String, _ arguments: [String], in directory: String, environment: [String: String] = [:], input: String = ""
    ) async throws -> Outcome {
        let program = try Program(executable, arguments, in: directory, environment: environment)
        program.write(input)
        program.endInput()
        return try await program.end()
    }

    func write(_ text: String) {
        try? input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    }

    func endInput() {
        try? input.fileHandleForWriting.close()
    }

    var isRunning: Bool { process.isRunning }
    /// The id of the process.
    var id: Int32 { process.processIdentifier }

    func signal(_ number: Int32) {
        if process.isRunning { kill(process.processIdentifier, number) }
    }

    /// The output so far.
    var output: String { read("out") }
    var errors: String { read("err") }

    private func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: "\(folder)/\(name)") ?? Data(), as: UTF8.self)
    }

    /// Waits until it ends, or ends it if it takes too long.
    func end() async throws -> Outcome {
        let status = try await withThrowingTaskGroup(of: Int32?.self) { [ended] group in
            group.addTask { await ended.first { _ in true } }
            group.addTask {
                try await ContinuousClock().sleep(for: Self.deadline)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
        guard let status else {
            signal(SIGKILL)
            throw Overdue(what: "a program", output: output, errors: errors)
        }
        return Outcome(status: status, output: output, errors: errors)
    }

    /// Waits until it has printed a text.
    func prints(_ text: String) async throws -> String {
        try await eventually("\"\(text)\" in the output; standard error: \(errors)") { self.output.contains(text) }
        return output
    }
}

/// Something did not happen before the deadline.
struct Overdue: Error {
    var what: String
    var output = ""
    var errors = ""
}

/// Checks a condition repeatedly until it holds, and fails at a deadline. For the work of other processes that nothing
/// reports.
func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + Program.deadline
    while try await !condition() {
        guard ContinuousClock.now < end else { throw Overdue(what: what) }
        try await ContinuousClock().sleep(for: .milliseconds(5))
    }
}
