import AnnalsCore
import AnnalsWire
import Foundation
import Testing

@testable import AnnalsHTTP
@testable import AnnalsSync

/// A relay that sends its answers byte by byte, by the clock of the machine. The lowest accepted rate is set so high that a test takes less
/// than a second. On a busy machine it takes longer, with the same result.
@Suite("A relay that sends its answer byte by byte", .timeLimit(.minutes(20)))
struct DrippingRelayTests {
    private func relay(_ server: ScriptedServer, _ client: HTTPClient, _ slowest: TransferRate) throws -> HTTPRelay {
        var relay = try HTTPRelay(address: server.address, space: #require(SpaceName("shop")), client: client)
        relay.slowest = slowest
        return relay
    }

    private func expectTooSlow(_ request: (HTTPRelay) async throws(TransportError) -> Void) async throws {
        let server = try ScriptedServer.dripping(1)
        defer { server.end() }
        let client = try HTTPClient()
        let relay = try relay(server, client, TransferRate(bytes: 2_000, in: .milliseconds(300)))
        await #expect {
            try await request(relay)
        } throws: { error in
            guard case .unanswered(let reason)? = error as? TransportError else { return false }
            return reason.hasSuffix("is too slow")
        }
        await client.shutdown()
    }

    @Test(arguments: [Duration?.none, .seconds(20)])
    func `is given up in a page, waited for or not`(wait: Duration?) async throws {
        try await expectTooSlow { (relay) async throws(TransportError) in
            _ = try await relay.pull(after: .zero, seen: LogMark(lineage: .random()), byteLimit: 1, wait: wait)
        }
    }

    @Test func `is given up in the answer to a push`() async throws {
        try await expectTooSlow { (relay) async throws(TransportError) in
            _ = try await relay.push([1, 2, 3], seen: LogMark(lineage: .random()))
        }
    }

    @Test func `is given up in a snapshot, and not taken up again without end`() async throws {
        let path = NSTemporaryDirectory() + "annals-dripping-\(ReplicaID.random())"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await expectTooSlow { (relay) async throws(TransportError) in
            _ = try await relay.downloadSnapshot(to: path) { _ in }
        }
    }

    @Test func `gets all the time that it needs when enough comes`() async throws {
        let path = NSTemporaryDirectory() + "annals-dripping-\(ReplicaID.random())"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let server = try ScriptedServer.dripping(500)
        defer { server.end() }
        let client = try HTTPClient()
        let relay = try relay(server, client, TransferRate(bytes: 100, in: .milliseconds(1_500)))
        #expect(try await relay.downloadSnapshot(to: path) { _ in } == Position(1))
        await client.shutdown()
    }
}

extension ScriptedServer {
    /// Answers every request with a snapshot of 20,000 bytes, one piece every twentieth of a second.
    fileprivate static func dripping(_ piece: Int) throws -> ScriptedServer { try ScriptedServer(dripping, "\(piece)") }

    private static let dripping = """
        import hashlib, threading
        piece, body, never = int(sys.argv[1]), b"x" * 20000, threading.Event()
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_): pass
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(200)
                self.send_header("Content-Type", "application/vnd.annals.snapshot")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Annals-Position", "1")
                self.send_header("Annals-Digest", hashlib.sha256(body).hexdigest())
                self.end_headers()
                try:
                    for start in range(0, len(body), piece):
                        self.wfile.write(body[start:start + piece])
                        self.wfile.flush()
                        never.wait(0.05)
                except OSError: pass
            do_POST = do_GET
        """
}
