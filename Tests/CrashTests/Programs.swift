import Foundation
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The built program and its processes, as a user has them.
enum Programs {
    /// `annals`, which the package manager builds beside the test bundle.
    static var annals: URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appendingPathComponent("annals")
    }

    /// Starts the program without waiting for it; what it prints goes to `output`, or nowhere.
    static func start(_ arguments: [String], output: Pipe? = nil) throws -> Process {
        let process = Process()
        process.executableURL = annals
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output ?? FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Runs the program to its end; its exit code.
    @discardableResult
    static func run(_ arguments: String...) throws -> Int32 {
        let process = try start(arguments)
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// Ends a process at once, in whatever it is doing. False when it had ended by itself.
    static func kill(_ process: Process) -> Bool {
        guard process.isRunning else { return false }
        _ = signal(process.processIdentifier)
        process.waitUntilExit()
        return process.terminationReason == .uncaughtSignal
    }

    private static func signal(_ id: Int32) -> Int32 {
        #if canImport(Glibc)
            Glibc.kill(id, SIGKILL)
        #elseif canImport(Musl)
            Musl.kill(id, SIGKILL)
        #else
            Darwin.kill(id, SIGKILL)
        #endif
    }
}

/// A relay process that can be killed and started again at the same address.
final class RelayProcess {
    private let data: String
    private(set) var url = ""
    private var port = "0"
    private var process: Process?

    init(data: String) throws {
        self.data = data
        try start()
    }

    func start() throws {
        let pipe = Pipe()
        let process = try Programs.start(["relay", "serve", "--data", data, "--listen", "127.0.0.1:\(port)", "--no-auth"], output: pipe)
        var line = ""
        while !line.contains("\n"), let byte = try pipe.fileHandleForReading.read(upToCount: 1), !byte.isEmpty {
            line += String(decoding: byte, as: UTF8.self)
        }
        let prefix = "listening on "
        let text = line.trimmingCharacters(in: .whitespacesAndNewlines)
        try #require(text.hasPrefix(prefix), "the relay said: \(text)")
        url = String(text.dropFirst(prefix.count))
        port = String(url.split(separator: ":").last ?? "0")
        self.process = process
    }

    var isRunning: Bool { process?.isRunning ?? false }

    func kill() -> Bool {
        process.map(Programs.kill) ?? false
    }

    deinit {
        _ = kill()
    }
}

/// Runs work that waits for processes, without keeping other tests from their threads.
func onThreadOfItsOwn(_ work: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        DispatchQueue(label: "crash").async { done.resume(with: Result { try work() }) }
    }
}
