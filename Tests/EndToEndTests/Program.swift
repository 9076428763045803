import Foundation
import Testing

/// How a program ended, and what it printed.
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

/// Another process: the built `annals`, the `sqlite3` shell, or whatever a test needs. It is ended by its id.
final class Program: Sendable {
    /// Because `Process` is only asked for its id and its end, which its own queue guards.
    private let process = Process()
    private let input = Pipe()
    private let folder: String
    private let ended: AsyncStream<Int32>

    /// The longest time that one program may take.
    static let deadline = Duration.seconds(900)

    /// Starts a program; its output goes to files, so that none of it is ever in its way.
    ///
    /// - Parameter directory: where it runs; its output is kept elsewhere.
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
        // Closed by hand: Foundation keeps what a `Process` was given, and many programs would use up all descriptors.
        for file in files + [input.fileHandleForReading] { try file.close() }
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        endInput()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Runs a program to its end.
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
    /// The process's number.
    var id: Int32 { process.processIdentifier }

    func signal(_ number: Int32) {
        if process.isRunning { kill(process.processIdentifier, number) }
    }

    /// What it has printed so far.
    var output: String { read("out") }
    var errors: String { read("err") }

    private func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: "\(folder)/\(name)") ?? Data(), as: UTF8.self)
    }

    /// Waits until it ends by itself, or ends it when it takes too long.
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

/// Something did not happen in time.
struct Overdue: Error {
    var what: String
    var output = ""
    var errors = ""
}

/// Looks again and again until a condition holds, and gives up at a deadline. For what other processes do, of which
/// nothing tells.
func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + Program.deadline
    while try await !condition() {
        guard ContinuousClock.now < end else { throw Overdue(what: what) }
        try await ContinuousClock().sleep(for: .milliseconds(5))
    }
}
