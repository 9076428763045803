import Foundation
import Testing

/// A network that forwards everything and writes all of it to a file.
struct RecordingProxy {
    let url: String
    private let program: Program
    private let file: String

    static func start(to address: String, in folder: String) async throws -> RecordingProxy {
        let port = try #require(address.split(separator: ":").last.map(String.init))
        let file = "\(folder)/traffic"
        let program = try Program("python3", ["-c", script, port, file], in: folder)
        let line = try await program.prints("\n").trimmingCharacters(in: .newlines)
        return RecordingProxy(url: "http://127.0.0.1:\(line)", program: program, file: file)
    }

    /// Ends it. Returns all forwarded bytes.
    func end() async throws -> Data {
        program.endInput()
        _ = try await program.end()
        return try #require(FileManager.default.contents(atPath: file))
    }

    private static let script = """
        import os, socket, sys, threading
        port, file = int(sys.argv[1]), open(sys.argv[2], "wb")
        lock = threading.Lock()
        def pump(source, target):
            try:
                while True:
                    piece = source.recv(65536)
                    if not piece: break
                    with lock: file.write(piece)
                    target.sendall(piece)
            except OSError: pass
            for end in (source, target):
                try: end.shutdown(socket.SHUT_RDWR)
                except OSError: pass
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        def serve():
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()
        sys.stdin.read()
        with lock: file.close()
        os._exit(0)
        """
}
