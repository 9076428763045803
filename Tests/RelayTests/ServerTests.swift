import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// The relay on a local port: streams, waits, start and stop.
@Suite(.timeLimit(.minutes(20))) struct ServerTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    func run(limits: RelayLimits = RelayLimits(), _ body: @escaping @Sendable (RunningRelay) async throws -> Void) async throws {
        try await RunningRelay.run(directory, limits: limits, body)
    }

    static func create(_ port: Int) async throws -> Lineage {
        let connection = try RawConnection(port: port)
        try connection.send("PUT /v1/spaces/shop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        let text = try await connection.read(until: nil)
        let start = try #require(text.range(of: "\"lineage\":\""))
        return try #require(Lineage(String(text[start.upperBound...].prefix(36))))
    }

    static func push(_ batch: TestBatch, port: Int) async throws {
        let bytes = batch.bytes
        let connection = try RawConnection(port: port)
        try connection.send(
            "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.annals.batch\r\n"
                + "Content-Length: \(bytes.count)\r\nConnection: close\r\n\r\n")
        try connection.send(bytes)
        #expect(try await connection.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200"))
    }

    @Test func `the first line of the log says version, formats, storage, address and limits`() async throws {
        let lines = LogCollector.Lines()
        let logger = Logger(label: "test") { _ in LogCollector(lines: lines, logLevel: .notice) }
        try await RunningRelay.run(directory, logger: logger) { relay in
            let first = try #require(lines.all.split(separator: "\n").first { $0.contains("the relay serves") })
            for part in [
                "\"version\": \(ProgramVersion.text)", "\"formats\": batch=\(BatchHeader.currentVersion),", "folder(format=",
                "http://127.0.0.1:\(relay.port)", "space-bytes=\(RelayLimits().log.spaceBytes)", "\"settings\": default",
            ] {
                #expect(first.contains(part), "\(part): \(first)")
            }
        }
    }

    @Test func `the event stream tells the head at once, at every commit, and ends when the relay stops`() async throws {
        try await run { relay in
            let lineage = try await Self.create(relay.port)
            let stream = try RawConnection(port: relay.port)
            try stream.send("GET /v1/spaces/shop/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let first = try await stream.read(until: "\"}\n\n")
            #expect(first.contains("Content-Type: text/event-stream"))
            #expect(first.contains("event: head\nid: 0/\(lineage)\ndata: {\"head\":0,\"lineage\":\"\(lineage)\"}\n\n"))
            var replica = TestReplica(1)
            for position in 1...3 {
                let batch = replica.batch(lineage, base: .zero, .writing(1))
                try await Self.push(batch, port: relay.port)
                replica.accept(batch)
                #expect(try await stream.read(until: "\"}\n\n").contains("event: head\nid: \(position)/\(lineage)\n"))
            }
            await relay.stop()
            #expect(try await stream.read(until: "0\r\n\r\n").hasSuffix("0\r\n\r\n"))
        }
    }

    @Test func `Last-Event-ID: what was seen is not told again, what was missed is`() async throws {
        var limits = RelayLimits()
        limits.heartbeatSeconds = 1
        try await run(limits: limits) { relay in
            let lineage = try await Self.create(relay.port)
            var replica = TestReplica(1)
            try await Self.push(replica.batch(lineage, base: .zero, .writing(1), .writing(2)), port: relay.port)
            let (same, other) = (": \n\n", "id: 2/\(lineage)\n")
            let seen = [
                ("2", same), ("1", other), ("99", other), ("junk", other), ("-1", other), ("2/\(lineage)", same), ("1/\(lineage)", other),
                ("99/\(lineage)", other), ("2/\(Lineage.random())", other), ("2/", other), ("9223372036854775808", other),
            ]
            for (seen, expected) in seen {
                let stream = try RawConnection(port: relay.port)
                try stream.send("GET /v1/spaces/shop/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: \(seen)\r\n\r\n")
                let text = try await stream.read(until: "\n\n")
                let start = text.contains("event") || text.contains(": \n") ? text : try await stream.read(until: "\n\n")
                #expect(start.contains(expected), "Last-Event-ID \(seen)")
            }
            // A stream without events sends heartbeats.
            let stream = try RawConnection(port: relay.port)
            try stream.send("GET /v1/spaces/shop/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _ = try await stream.read(until: "\"}\n\n")
            #expect(try await stream.read(until: ": \n\n").contains(": \n\n"))
        }
    }

    /// The value of a metric without labels.
    static func metric(_ name: String, _ port: Int) async throws -> Int? {
        let connection = try RawConnection(port: port)
        try connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        let line = try await connection.read(until: nil).split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line.flatMap { Int($0.dropFirst(name.count + 1)) }
    }

    @Test func `connections, event streams and bytes are counted as they come and go`() async throws {
        var limits = RelayLimits()
        limits.heartbeatSeconds = 1
        try await run(limits: limits) { relay in
            let lineage = try await Self.create(relay.port)
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            try await Self.push(batch, port: relay.port)
            #expect(try await Self.metric("annals_relay_received_bytes_total", relay.port) == batch.bytes.count)
            let sent = try #require(await Self.metric("annals_relay_sent_bytes_total", relay.port))
            do {
                let stream = try RawConnection(port: relay.port)
                try stream.send("GET /v1/spaces/shop/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                _ = try await stream.read(until: "\"}\n\n")
                #expect(try await Self.metric("annals_relay_event_streams", relay.port) == 1)
                #expect(try #require(await Self.metric("annals_relay_connections", relay.port)) >= 2)
                #expect(try #require(await Self.metric("annals_relay_sent_bytes_total", relay.port)) > sent)
            }
            // A lost connection is detected at the heartbeat.
            while try await Self.metric("annals_relay_event_streams", relay.port) != 0 {}
        }
    }

    @Test func `a waiting pull is answered by the commit, and by the stop`() async throws {
        try await run { relay in
            let lineage = try await Self.create(relay.port)
            let pull = "GET /v1/spaces/shop/entries?after=0&wait=30 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            let (woken, stopped) = (try RawConnection(port: relay.port), try RawConnection(port: relay.port))
            try woken.send(pull)
            var replica = TestReplica(1)
            try await Self.push(replica.batch(lineage, base: .zero, .writing(1)), port: relay.port)
            #expect(try await woken.read(until: nil).hasPrefix("HTTP/1.1 200"))
            try stopped.send(pull.replacing("after=0", with: "after=1"))
            // The relay works on its request once a later request on another connection is answered.
            _ = try await Self.health(relay.port)
            await relay.stop()
            let text = try await stopped.read(until: nil)
            #expect(text.hasPrefix("HTTP/1.1 200") || text.isEmpty)
        }
    }

    static func health(_ port: Int) async throws -> String {
        let connection = try RawConnection(port: port)
        try connection.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return try await connection.read(until: nil)
    }

    @Test func `Expect 100-continue is answered before the body`() async throws {
        try await run { relay in
            let lineage = try await Self.create(relay.port)
            var replica = TestReplica(1)
            let bytes = replica.batch(lineage, base: .zero, .writing(1)).bytes
            let connection = try RawConnection(port: relay.port)
            let head =
                "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.annals.batch\r\n"
                + "Content-Length: \(bytes.count)\r\nExpect: 100-continue\r\n\r\n"
            for _ in 0..<2 {
                try connection.send(head)
                #expect(try await connection.read(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
                try connection.send(bytes)
                #expect(try await connection.read(until: "ANNA").hasPrefix("HTTP/1.1 200 OK"))
            }
        }
    }

    @Test func `a client that breaks off its push leaves nothing, and the relay goes on`() async throws {
        try await run { relay in
            let lineage = try await Self.create(relay.port)
            var replica = TestReplica(1)
            let bytes = replica.batch(lineage, base: .zero, .writing(1)).bytes
            for count in [0, 1, bytes.count - 1] {
                let connection = try RawConnection(port: relay.port)
                try connection.send(
                    "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.annals.batch\r\n"
                        + "Content-Length: \(bytes.count)\r\n\r\n")
                try connection.send(Array(bytes.prefix(count)))
            }
            try await Self.push(TestBatch(like: replica, lineage), port: relay.port)
            let connection = try RawConnection(port: relay.port)
            try connection.send("GET /v1/spaces/shop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(try await connection.read(until: nil).contains("\"head\":1,"))
        }
    }

    @Test func `what is not HTTP gets a clean close`() async throws {
        try await run { relay in
            for junk in ["\u{16}\u{3}\u{1}hello\r\n\r\n", "GET\r\n\r\n", "BREW / HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
                let connection = try RawConnection(port: relay.port)
                try connection.send(junk)
                let text = try await connection.read(until: nil)
                #expect(text.isEmpty || text.hasPrefix("HTTP/1.1 400"))
            }
            let long = "GET /" + String(repeating: "x", count: 100_000) + " HTTP/1.1\r\n\r\n"
            let connection = try RawConnection(port: relay.port)
            try? connection.send(long)
            #expect(((try? await connection.read(until: nil)) ?? "").contains("HTTP/1.1 2") == false)
            #expect(try await Self.health(relay.port).hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func `the log is whole after the stop, in one file`() async throws {
        try await run { relay in
            let lineage = try await Self.create(relay.port)
            var replica = TestReplica(1)
            try await Self.push(replica.batch(lineage, base: .zero, .writing(1)), port: relay.port)
        }
        let wal = try FileManager.default.attributesOfItem(atPath: directory.path + "/relay.db-wal")[.size] as? Int
        #expect(wal ?? 0 == 0)
        let mode = try FileManager.default.attributesOfItem(atPath: directory.path + "/relay.db")[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let log = try RelayLog(directory: directory.path, logger: .silent)
        #expect(try await log.describe(.shop).head == Position(1))
        await log.close()
    }

    @Test func `an address that is taken is a clear error, and the data is let go`() async throws {
        try await run { relay in
            let other = try TemporaryDirectory()
            let configuration = RelayConfiguration(
                address: ListenAddress(host: "127.0.0.1", port: relay.port), storage: .directory(other.path), noAuthorization: true)
            let server = try RelayServer(configuration: configuration, logger: .silent)
            await #expect { try await server.run() } throws: { error in
                guard let error = error as? AnnalsError else { return false }
                return error.code == .configuration && error.message.contains("\(relay.port)") && error.hint != nil
            }
            await (try RelayLog(directory: other.path, logger: .silent)).close()
        }
    }

    @Test func `a cancelled task stops it too`() async throws {
        let configuration = RelayConfiguration(
            address: ListenAddress(host: "127.0.0.1", port: 0), storage: .directory(directory.path), noAuthorization: true)
        let (addresses, announce) = AsyncStream<ListenAddress>.makeStream()
        let server = try RelayServer(configuration: configuration, logger: .silent) { announce.yield($0) }
        let task = Task { try await server.run() }
        for await _ in addresses { break }
        task.cancel()
        _ = await task.result
        await (try RelayLog(directory: directory.path, logger: .silent)).close()
    }
}

extension TestBatch {
    /// The replica's first batch, made again.
    fileprivate init(like replica: TestReplica, _ lineage: Lineage) {
        var copy = replica
        self = copy.batch(lineage, base: .zero, .writing(1))
    }
}
