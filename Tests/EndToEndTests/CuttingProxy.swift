import Foundation
import Testing

/// A faulty network: each connection through it ends after a number of bytes in one direction. After a number of cuts it works
/// normally. It counts the forwarded bytes.
struct CuttingProxy {
    let url: String
    private let program: Program

    /// - Parameters:
    ///   - way: `up` or `down`, the direction of the counted bytes.
    ///   - bytes: The number of bytes after which a connection ends.
    ///   - times: The number of cuts.
    ///   - stalls: The connection does not end, but forwards nothing any more.
    static func start(to address: String, _ way: String, after bytes: Int, times: Int, stalls: Bool = false, in folder: String) async throws
        -> CuttingProxy
    {
        let port = try #require(address.split(separator: ":").last.map(String.init))
        let program = try Program("python3", ["-c", script, port, way, "\(bytes)", "\(times)", stalls ? "stall" : "end"], in: folder)
        let line = try await program.prints("\n").trimmingCharacters(in: .newlines)
        return CuttingProxy(url: "http://127.0.0.1:\(line)", program: program)
    }

    /// Waits until a connection stalls.
    func stalls() async throws {
        _ = try await program.prints("stalled")
    }

    /// Ends it. Returns the number of bytes that it forwarded in its direction, and the number of connections that it cut.
    func end() async throws -> (bytes: Int, cuts: Int) {
        program.endInput()
        let outcome = try await program.end()
        let numbers = try #require(outcome.lines.last).split(separator: " ").compactMap { Int($0) }
        return (numbers[0], numbers[1])
    }

    private static let script = """
        import os, socket, sys, threading
        port, way, limit, times, stalls = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "stall"
        lock = threading.Lock()
        total, cuts = 0, 0
        def pump(source, target, counts):
            global total, cuts
            passed, cut = 0, False
            try:
                while True:
                    piece = source.recv(65536)
                    if not piece: break
                    target.sendall(piece)
                    passed += len(piece)
                    if not counts: continue
                    with lock:
                        total += len(piece)
                        if passed >= limit and cuts < times:
                            cuts += 1
                            cut = True
                    if cut and stalls:
                        print("stalled", flush=True)
                        threading.Event().wait()
                    if cut: break
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
                for one, other, up in ((client, server, True), (server, client, False)):
                    threading.Thread(target=pump, args=(one, other, up == (way == "up")), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()
        sys.stdin.read()
        print(total, cuts, flush=True)
        os._exit(0)
        """
}
