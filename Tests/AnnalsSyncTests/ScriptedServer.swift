import Foundation

/// A server in Python that answers as a script says, which defines `Handler`. It ends with this process at the latest.
final class ScriptedServer: Sendable {
    let address: String
    private let process = Process()
    private let input = Pipe()

    init(_ script: String, _ arguments: String...) throws {
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", "import http.server, os, sys, threading\n\(script)\n\(Self.serve)"] + arguments
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        address = "http://127.0.0.1:\(line.trimmingCharacters(in: .whitespacesAndNewlines))"
    }

    /// The server ends when its input ends.
    func end() {
        try? input.fileHandleForWriting.close()
    }

    private static let serve = """
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        os._exit(0)
        """
}
