import Foundation

/// A program that runs as a child process.
final class ChildProgram {
    private let process: pid_t
    private let output: FileHandle
    private var hasEnded = false

    init(_ path: String, _ arguments: [String]) throws {
        let pipe = Pipe()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipe.fileHandleForWriting.fileDescriptor, 1)
        posix_spawn_file_actions_addclose(&actions, pipe.fileHandleForReading.fileDescriptor)
        posix_spawn_file_actions_addclose(&actions, pipe.fileHandleForWriting.fileDescriptor)
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var process: pid_t = 0
        guard posix_spawn(&process, path, &actions, nil, &words, environ) == 0 else {
            throw BareConnection.Failure(description: "cannot run \(path)")
        }
        try pipe.fileHandleForWriting.close()
        self.process = process
        output = pipe.fileHandleForReading
    }

    deinit {
        if !hasEnded { stop() }
    }

    /// Runs a program to its end.
    static func run(_ path: String, _ arguments: [String]) throws {
        let program = try ChildProgram(path, arguments)
        _ = try program.output.readToEnd()
        guard program.wait() == 0 else { throw BareConnection.Failure(description: "\(path) \(arguments.first ?? "") failed") }
    }

    /// The program `annals` of the same build, in the same folder as this program.
    static func annals() throws -> String {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
        let path = URL(fileURLWithPath: own).deletingLastPathComponent().appendingPathComponent("annals").path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw BareConnection.Failure(description: "\(path) is missing: build the product annals")
        }
        return path
    }

    /// Starts a relay on a free port, without a limit of requests, and returns its address.
    ///
    /// - Parameter place: the command line arguments that say where the relay stores its logs.
    static func relay(_ place: [String]) throws -> (program: ChildProgram, address: String) {
        for name in ["REQUESTS_PER_SECOND", "REQUEST_BURST"] { setenv("ANNALS_RELAY_LIMITS_\(name)", "10000000", 1) }
        let program = try ChildProgram(annals(), ["relay", "serve", "--listen", "127.0.0.1:0", "--no-auth"] + place)
        guard let address = try program.firstLine().split(separator: " ").last else {
            throw BareConnection.Failure(description: "the relay did not print its address")
        }
        return (program, String(address))
    }

    /// Seconds of processor time that the program has used.
    func processorTime() throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        // The name, in parentheses, may have spaces. User and system time are the 14th and 15th field.
        let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else {
            throw BareConnection.Failure(description: "/proc has no times of the program")
        }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// The resident memory of the program, in bytes.
    func memory() throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8).split(separator: " ")
        guard text.count > 1, let pages = Double(text[1]) else {
            throw BareConnection.Failure(description: "/proc has no memory of the program")
        }
        return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
    }

    private func firstLine() throws -> String {
        var line = Data()
        while let byte = try output.read(upToCount: 1), let first = byte.first, first != UInt8(ascii: "\n") { line.append(first) }
        return String(decoding: line, as: UTF8.self)
    }

    /// Ends the program with SIGTERM and waits for it.
    func stop() {
        kill(process, SIGTERM)
        _ = wait()
    }

    private func wait() -> Int32 {
        guard !hasEnded else { return 0 }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        hasEnded = true
        return status
    }
}
