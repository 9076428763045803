import Foundation
import Testing

@testable import AnnalsHTTP

/// The Python server beside this file, as a child process; one for the whole test run. It ends by its id when the
/// tests do, and by itself when they die, since its standard input then ends.
final class TestServer: Sendable {
    static let shared: Result<TestServer, any Error> = Result {
        let server = try TestServer()
        atexit { try? TestServer.shared.get().stop() }
        return server
    }

    let port: Int
    private let process: Process
    private let input: Pipe

    private init() throws {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", URL(fileURLWithPath: #filePath).deletingLastPathComponent().path + "/server.py"]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        (self.process, self.input) = (process, input)
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        port = try #require(Int(line.trimmingCharacters(in: .whitespacesAndNewlines)))
    }

    private func stop() {
        kill(process.processIdentifier, SIGTERM)
    }

    /// An address on the server.
    static func url(_ path: String) throws -> String {
        "http://127.0.0.1:\(try shared.get().port)\(path)"
    }
}

/// Gives a test a client of its own, and shuts it down however the test ends.
func withClient(
    _ configuration: HTTPClient.Configuration = HTTPClient.Configuration(), _ body: (HTTPClient) async throws -> Void
) async throws {
    let client = try HTTPClient(configuration)
    do {
        try await body(client)
    } catch {
        await client.shutdown()
        throw error
    }
    await client.shutdown()
}

extension HTTPClient {
    /// The server's answer to a GET.
    func get(_ path: String) async throws -> HTTPResponse {
        try await send(HTTPRequest(url: TestServer.url(path)))
    }

    /// What the server says in JSON.
    func value<Value: Decodable>(_ path: String) async throws -> Value {
        let response = try await get(path)
        return try JSONDecoder().decode(Value.self, from: Data(response.body))
    }

    /// Returns once the server has set a mark.
    func mark(_ name: String, _ sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let response = try await get("/await?name=\(name)")
        #expect(response.status == 200 && response.body != Array("null".utf8), "\(name)", sourceLocation: sourceLocation)
    }

    /// Returns once the server has set a mark, and the number it set it to.
    func markedCount(_ name: String) async throws -> Int {
        try await value("/await?name=\(name)")
    }
}

/// The error a request ends with; a success is a failed test.
func failure<Value>(
    _ sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws(HTTPError) -> Value
) async throws -> HTTPError {
    do throws(HTTPError) {
        _ = try await body()
    } catch {
        return error
    }
    Issue.record("no error was thrown", sourceLocation: sourceLocation)
    throw HTTPError(.protocolError, "no error was thrown")
}

/// A name for marks and files that no other test uses.
func uniqueName(_ function: String = #function) -> String {
    function.prefix { $0.isLetter } + "-" + UUID().uuidString
}

/// A path in a folder of its own, removed when the body has returned.
func withFile(_ content: [UInt8]? = nil, _ body: (String) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-http-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appendingPathComponent("file")
    if let content { try Data(content).write(to: file) }
    try await body(file.path)
}

func contents(of path: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
}

/// The bodies the server generates: byte number n is n % 251.
enum Pattern {
    private static let bytes = (0..<(251 * 8400)).map { UInt8($0 % 251) }

    static func bytes(_ count: Int) -> [UInt8] {
        var result: [UInt8] = []
        while result.count < count { result += bytes.prefix(count - result.count) }
        return result
    }
}
