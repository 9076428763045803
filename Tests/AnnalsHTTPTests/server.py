"""A server that behaves, and misbehaves, as the tests of AnnalsHTTP ask it to. Python's standard library only.

It listens on 127.0.0.1, prints its port as the first line, and ends when its standard input does, so it never
outlives the tests that started it. Marks are how tests wait without sleeping: a path such as /silent sets a mark
under the name it was given, and /await returns once that mark is set.
"""

import base64
import hashlib
import http.server
import itertools
import json
import os
import select
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

# Byte number n of every generated body is n % 251, a prime, so that a shifted piece never looks right.
PATTERN = bytes(range(251)) * 4178
PERIOD = 251
PATIENCE = 60


class Marks:
    def __init__(self):
        self.condition = threading.Condition()
        self.values = {}

    def set(self, name, value=True):
        with self.condition:
            self.values[name] = value
            self.condition.notify_all()

    def wait(self, name):
        with self.condition:
            self.condition.wait_for(lambda: name in self.values, PATIENCE)
            return self.values.get(name)


marks = Marks()
connection_numbers = itertools.count(1)
kept_sockets = []
folder = tempfile.mkdtemp(prefix="annals-http-tests-")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.connection_number = next(connection_numbers)

    def log_message(self, *arguments):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True

    def send_head(self, status, headers):
        self.send_response(status)
        self.send_header("Connection-Number", str(self.connection_number))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def answer(self, status, body, *headers):
        self.send_head(status, [("Content-Length", str(len(body))), *headers])
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value):
        self.answer(200, json.dumps(value).encode(), ("Content-Type", "application/json; charset=utf-8"))

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def read_body(self):
        """Reads the body in pieces; what came of it, also when the client went away in the middle."""
        expected = int(self.headers.get("Content-Length", 0))
        digest, length = hashlib.sha256(), 0
        while length < expected:
            try:
                piece = self.rfile.read1(min(1 << 20, expected - length))
            except ConnectionError:
                break
            if not piece:
                break
            digest.update(piece)
            length += len(piece)
        return length, digest.hexdigest(), length == expected

    def wait_until_gone(self, name):
        """Returns when the client has closed the connection, and marks that with the bytes that came before."""
        count = 0
        try:
            while piece := self.rfile.read1(1 << 20):
                count += len(piece)
        except OSError:
            pass
        marks.set(name + "-gone", count)
        self.close_connection = True

    def dispatch(self):
        parts = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(parts.query))
        self.name = self.query.get("name", "")
        action = getattr(self, "on_" + parts.path.strip("/").replace("-", "_"), None)
        if action is None:
            return self.answer(404, b'{"code": "not-found"}', ("Content-Type", "application/problem+json"))
        try:
            action()
        except ConnectionError:
            marks.set(self.name + "-gone", 0)
            raise

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = dispatch

    # Ordinary answers.

    def on_hello(self):
        self.answer(200, b"hello", ("Content-Type", "text/plain"), ("X-Twice", "one"), ("x-twice", "two"))

    def on_describe(self):
        length, digest, whole = self.read_body()
        headers = [[name.lower(), value] for name, value in self.headers.items()]
        self.answer_json({"method": self.command, "path": self.path, "headers": headers, "length": length, "sha256": digest, "whole": whole})

    def on_echo(self):
        self.answer(200, self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def on_status(self):
        self.answer(int(self.query["code"]), b"", ("Location", "/hello"))

    def on_html(self):
        self.answer(200, b"<!DOCTYPE html><title>Welcome</title>", ("Content-Type", "Text/HTML; charset=utf-8"))

    def on_empty(self):
        self.send_head(204, [])

    def on_bytes(self):
        count, start, status, extra = int(self.query["count"]), 0, 200, []
        requested = self.headers.get("Range")
        if requested and "deaf" not in self.query:
            start = int(requested.removeprefix("bytes=").rstrip("-"))
            if start >= count:
                return self.answer(416, b"", ("Content-Range", "bytes */%d" % count))
            start += int(self.query.get("off-by", 0))
            status, extra = 206, [("Content-Range", "bytes %d-%d/%d" % (start, count - 1, count))]
        if "chunked" in self.query:
            self.send_head(status, [("Transfer-Encoding", "chunked"), *extra])
            for piece in pieces(start, count):
                self.chunk(piece)
            self.chunk(b"")
        else:
            self.send_head(status, [("Content-Length", str(count - start)), *extra])
            for piece in pieces(start, count):
                self.wfile.write(piece)

    def on_interim(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")
        self.answer(200, b"after the interim answer")

    # Servers that are slow, on which a test waits by marks.

    def on_await(self):
        self.answer_json(marks.wait(self.name))

    def on_mark(self):
        marks.set(self.name)
        self.answer(200, b"")

    def on_silent(self):
        marks.set(self.name)
        self.wait_until_gone(self.name)

    def on_linger(self):
        """Answers, keeps the connection, and marks when the client closes it."""
        self.answer(200, b"")
        self.wait_until_gone(self.name)

    def on_stuck(self):
        self.send_head(200, [("Content-Length", "1000000")])
        self.wfile.write(PATTERN[:1000])
        marks.set(self.name)
        self.wait_until_gone(self.name)

    def on_endless(self):
        """Sends as fast as it can until the client is gone."""
        self.send_head(200, [("Transfer-Encoding", "chunked")])
        while True:
            self.chunk(PATTERN)

    def on_deaf(self):
        """Never reads the body it is sent, until the test has said so."""
        marks.set(self.name)
        marks.wait(self.name + "-read")
        self.wait_until_gone(self.name)

    def on_swallow(self):
        length, _, _ = self.read_body()
        self.answer_json({"length": length})

    # Servers that break what they began.

    def on_cut(self):
        self.send_head(200, [("Content-Length", "1000")])
        self.wfile.write(b"0123456789")
        self.close_connection = True

    def on_cut_chunked(self):
        self.send_head(200, [("Transfer-Encoding", "chunked")])
        self.chunk(b"0123456789")
        self.close_connection = True

    def on_nothing(self):
        self.close_connection = True

    def on_once_per_connection(self):
        """Answers as if the connection were to stay, and closes it."""
        self.read_body()
        self.answer(200, b"once")
        self.close_connection = True

    def on_close_under_the_next(self):
        """Answers, and closes the connection the moment the next request begins to arrive on it."""
        self.read_body()
        self.answer(200, b"once")
        select.select([self.connection], [], [], PATIENCE)
        self.close_connection = True

    def on_garbage(self):
        self.wfile.write(b"this is no HTTP\r\n\r\n")
        self.close_connection = True

    def on_huge_head(self):
        self.send_head(200, [("X-Filler-%d" % number, "x" * 1000) for number in range(100)])

    def on_refuse_early(self):
        """Refuses before it has read the body, and then reads what comes until the client ends."""
        self.answer(413, b'{"code": "too-large"}', ("Content-Type", "application/problem+json"), ("Connection", "close"))
        self.wait_until_gone(self.name)

    # What tests need around a request.

    def on_refusing_port(self):
        """A port that is taken, but on which nobody listens."""
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        kept_sockets.append(taken)
        self.answer_json(taken.getsockname()[1])

    def on_mute_port(self):
        """A port whose connections are accepted by the system, but never served."""
        mute = socket.socket()
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        kept_sockets.append(mute)
        self.answer_json(mute.getsockname()[1])

    def on_tls_port(self):
        self.answer_json(certificates.port(self.query.get("kind", "good")))

    def on_certificate(self):
        self.answer_json(certificates.path("ca.pem"))

    def on_pin(self):
        self.answer_json(certificates.pin(self.query.get("kind", "good")))

    def on_proxy_port(self):
        self.answer_json(proxy.start())

    def on_proxy_heads(self):
        self.answer_json(proxy.heads)


def pieces(start, end):
    while start < end:
        shift = start % PERIOD
        piece = memoryview(PATTERN)[shift:shift + min(end - start, len(PATTERN) - shift)]
        yield piece
        start += len(piece)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


def serve(tls=None):
    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Certificates:
    """Servers with certificates of several kinds, made when they are first asked for."""

    KINDS = {
        "good": ("ca", "IP:127.0.0.1,DNS:relay.test", 2),
        "expired": ("ca", "IP:127.0.0.1", -1),
        "other-host": ("ca", "DNS:elsewhere.test", 2),
        "stranger": ("stranger-ca", "IP:127.0.0.1", 2),
    }

    def __init__(self):
        self.lock = threading.Lock()
        self.ports = {}

    def path(self, name):
        with self.lock:
            return self.made(name)

    def made(self, name):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            self.make(name.removesuffix(".pem"))
        return path

    def make(self, name):
        """Makes NAME.pem and NAME.key."""
        path = os.path.join(folder, name)
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", path + ".key"]
        if name not in self.KINDS:
            return self.openssl("req", "-x509", *new_key, "-days", "2", "-out", path + ".pem")
        issuer, names, days = self.KINDS[name]
        self.made(issuer + ".pem")
        with open(path + ".ext", "w") as extensions:
            extensions.write(f"subjectAltName={names}\n")
        self.openssl("req", *new_key, "-out", path + ".csr")
        issuer = os.path.join(folder, issuer)
        self.openssl(
            "x509", "-req", "-in", path + ".csr", "-CA", issuer + ".pem", "-CAkey", issuer + ".key", "-CAcreateserial",
            "-days", str(days), "-extfile", path + ".ext", "-out", path + ".pem")

    def openssl(self, *arguments, given=b""):
        done = subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, input=given)
        return done.stdout

    def pin(self, kind):
        with self.lock:
            public = self.openssl("x509", "-in", self.made(kind + ".pem"), "-noout", "-pubkey")
            key = self.openssl("pkey", "-pubin", "-outform", "der", given=public)
            return "sha256//" + base64.b64encode(hashlib.sha256(key).digest()).decode()

    def port(self, kind):
        with self.lock:
            if kind not in self.ports:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                certificate = self.made(kind + ".pem")
                context.load_cert_chain(certificate, certificate.removesuffix(".pem") + ".key")
                self.ports[kind] = serve(context)
            return self.ports[kind]


class Proxy:
    """Opens tunnels to this machine, whatever host is asked for, and notes the head of every request."""

    def __init__(self):
        self.heads = []

    def start(self):
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
        return listener.getsockname()[1]

    def accept(self, listener):
        while True:
            threading.Thread(target=self.answer, args=(listener.accept()[0],), daemon=True).start()

    def answer(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.heads.append(head.decode())
        method, target, _ = head.decode().split(" ", 2)
        if method != "CONNECT":
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return client.close()
        server = socket.create_connection(("127.0.0.1", int(target.rsplit(":", 1)[1])))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


certificates = Certificates()
proxy = Proxy()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        print(serve(), flush=True)
        sys.stdin.read()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
