import Foundation

/// A program on a local port that answers unlike a relay, or like a relay that stops in the middle.
enum FakeRelay: String, CaseIterable {
    /// A page of a proxy or a hotel.
    case html
    /// Answers every request with status 500 and no body, like a proxy with a failed server.
    case ill
    /// Accepts the connection and closes it.
    case nothing
    /// Accepts the request and never answers.
    case silence
    /// Describes a space, and stops in the middle of its snapshot.
    case stall

    /// Starts it, and returns its address with the port. It ends when its standard input ends.
    func start(in folder: String) async throws -> (url: String, program: Program) {
        let program = try Program("python3", ["-c", Self.script, rawValue], in: folder)
        let line = try await program.prints("\n").trimmingCharacters(in: .newlines)
        return ("http://127.0.0.1:\(line)", program)
    }

    private static let script = """
        import http.server, os, sys, threading
        kind = sys.argv[1]
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def log_message(self, *_): pass
            def say(self, type, body, length=None):
                self.send_response(200)
                self.send_header("Content-Type", type)
                self.send_header("Content-Length", str(length or len(body)))
                self.send_header("Annals-Position", "1")
                self.send_header("Annals-Digest", "00" * 32)
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
            def do_GET(self):
                print("request", self.path, flush=True)
                if kind == "html": self.say("text/html", b"<html>Welcome to the hotel</html>")
                elif kind == "ill":
                    self.send_response(500)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif kind == "nothing": self.close_connection = True
                elif kind == "silence": threading.Event().wait()
                elif self.path.endswith("/snapshot"):
                    self.say("application/vnd.annals.snapshot", b"x" * 1000, 1000000)
                    threading.Event().wait()
                else:
                    self.say("application/json", b'{"space":"shop","lineage":"11111111-1111-4111-8111-111111111111","head":1,"horizon":0}')
            do_PUT = do_POST = do_GET
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        os._exit(0)
        """
}
