import AnnalsCore
import AnnalsWire
import Foundation
import Testing

@testable import AnnalsHTTP
@testable import AnnalsSync

/// A relay with a snapshot that never ends, or that is no snapshot. Nothing of it is written, or no more than its first answer says.
@Suite struct EndlessSnapshotTests {
    private static let free = Int64(1) << 40

    private struct Outcome {
        var error: TransportError?
        /// The length of the downloaded file; nil if there is none.
        var length: Int?
    }

    /// Downloads from a server that answers as `kind` says in `script`. `present` bytes exist from an earlier attempt.
    private func download(_ kind: String, present: Int? = nil, free: Int64 = free) async throws -> Outcome {
        let folder = try TemporaryFolder()
        let path = folder.file("snapshot")
        if let present {
            try Data(repeating: 120, count: present).write(to: URL(fileURLWithPath: path))
            PartialDownload.note("\"tag\"", of: path)
        }
        let server = try ScriptedServer(Self.script, kind)
        defer { server.end() }
        let client = try HTTPClient()
        var relay = try HTTPRelay(address: server.address, space: #require(SpaceName("shop")), client: client)
        relay.freeBytes = { _ in free }
        var outcome = Outcome()
        do {
            _ = try await relay.downloadSnapshot(to: path) { _ in }
        } catch {
            outcome.error = error
        }
        await client.shutdown()
        outcome.length = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
        return outcome
    }

    private func reason(_ outcome: Outcome) throws -> String {
        guard case .notARelay(let reason)? = outcome.error else {
            Issue.record("\(String(describing: outcome.error))")
            return ""
        }
        return reason
    }

    @Test func `an answer without a length is refused before the file is made`() async throws {
        let outcome = try await download("endless")
        #expect(try reason(outcome) == "the server did not send the length of the file")
        #expect(outcome.length == nil)
    }

    @Test func `no more than the length that a range says is written`() async throws {
        let outcome = try await download("endless range", present: 100)
        #expect(try reason(outcome).hasPrefix("the answer is larger than"))
        #expect(try #require(outcome.length) <= 20_000)
    }

    @Test func `a snapshot that grows from one try to the next is refused`() async throws {
        let outcome = try await download("growing")
        #expect(try reason(outcome) == "the snapshot has 20000 bytes, and had 10000 before")
        #expect(outcome.length == 5_000)
    }

    @Test(arguments: ["page", "no digest", "no position"])
    func `what is no snapshot by its head is refused before the file is made`(kind: String) async throws {
        let outcome = try await download(kind)
        #expect(try reason(outcome) == "its answer is not a snapshot")
        #expect(outcome.length == nil)
    }

    @Test func `a snapshot for which the disk has no room is not begun`() async throws {
        let outcome = try await download("whole", free: 64 << 20)
        guard case .localFile(let reason, isDiskFull: true)? = outcome.error else {
            Issue.record("\(String(describing: outcome.error))")
            return
        }
        #expect(reason == "the snapshot has 20000 bytes, and the disk has 67108864 free")
        #expect(outcome.length == nil)
        let enough = try await download("whole", free: 64 << 20 + 20_000)
        #expect(enough.error == nil && enough.length == 20_000)
        // Existing bytes need no additional space.
        let partly = try await download("whole", present: 100, free: 64 << 20 + 19_900)
        #expect(partly.error == nil && partly.length == 20_000)
    }

    private static let script = """
        import hashlib
        kind, body = sys.argv[1], b"x" * 20000
        half = 10000 if kind == "growing" else len(body)
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def log_message(self, *_): pass
            def do_GET(self):
                start = int(self.headers.get("Range", "bytes=0-")[6:-1])
                self.send_response(206 if start else 200)
                self.send_header("Content-Type", "text/html" if kind == "page" else "application/vnd.annals.snapshot")
                if start: self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
                if kind.startswith("endless"): self.send_header("Transfer-Encoding", "chunked")
                else: self.send_header("Content-Length", str((len(body) if start else half) - start))
                self.send_header("ETag", '"tag"')
                if kind != "no position": self.send_header("Annals-Position", "1")
                if kind != "no digest": self.send_header("Annals-Digest", hashlib.sha256(body).hexdigest())
                self.end_headers()
                try:
                    if kind == "growing" and not start:
                        # It breaks off before what it said.
                        self.wfile.write(body[:5000])
                        self.close_connection = True
                    elif not kind.startswith("endless"): self.wfile.write(body[start:])
                    else:
                        for _ in range(20000): self.wfile.write(b"4000\\r\\n" + b"x" * 0x4000 + b"\\r\\n")
                except OSError: pass
        """
}
