import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation
import Synchronization

/// The time from sending a push until each of many event streams has the new head, compared with a bare HTTP round trip.
///
/// The relay runs in a separate process. All streams end in this process, on the same machine, so the time includes that of their
/// reader.
enum FanoutBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        setenv("ANNALS_RELAY_LIMITS_SPACE_SHARE_PERCENT", "100", 1)
        defer { unsetenv("ANNALS_RELAY_LIMITS_SPACE_SHARE_PERCENT") }
        let (program, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { program.stop() }
        let client = try HTTPClient()
        let trip = try await HTTPRoundTrip.median(of: 300, address, client)
        var results: [Benchmark] = []
        for count in scale.rounds > 2 ? [1, 100, 1_000, 5_000] : [1, 100, 1_000] {
            guard let space = SpaceName("fanout-\(count)") else { throw BareConnection.Failure(description: "the space has no name") }
            let lineage = try await RelayBenchmarks.create(space, address, client)
            let streams = try EventStreams(count, of: space, address)
            let batches = try RelayBenchmarks.batches(scale.rounds * 10 + 5, by: count, in: lineage)
            var taken: [Double] = []
            for (number, batch) in batches.enumerated() {
                let start = ContinuousClock.now
                async let seconds = streams.waitForHead(since: start)
                _ = try await RelayBenchmarks.post([[batch]], to: [address], Endpoints.push(space), expecting: 200, client)
                // The first pushes are a warm-up.
                if try await seconds.count == count, number >= 5 { taken += try await seconds }
            }
            streams.close()
            taken.sort()
            for (share, name) in [(0.5, "median"), (0.99, "p99")] {
                let round = Comparison.Round(subject: taken[Int(Double(taken.count - 1) * share)], baseline: trip)
                results.append(
                    Benchmark(
                        name: "a push until \(count) event streams have it, \(name)", against: "a bare HTTP round trip", budget: .none,
                        work: 1, comparison: Comparison(rounds: [round])))
            }
        }
        await client.shutdown()
        return results
    }
}

/// The time of a request that does nothing, one after another.
enum HTTPRoundTrip {
    /// In seconds.
    static func median(of count: Int, _ address: String, _ client: HTTPClient) async throws -> Double {
        let clock = ContinuousClock()
        var taken: [Double] = []
        for _ in 0..<count {
            let start = clock.now
            _ = try await client.send(HTTPRequest("GET", url: address + Endpoints.live))
            taken.append((clock.now - start) / .seconds(1))
        }
        return Comparison.median(taken)
    }
}

/// Connections that read the events of one space.
private final class EventStreams: Sendable {
    private let connections: [Int32]

    /// Opens the streams one after another, and waits for the first event of each.
    init(_ count: Int, of space: SpaceName, _ address: String) throws {
        try Self.allowFiles(count + 200)
        guard let url = URL(string: address), let port = url.port else { throw Self.failure("no port in \(address)") }
        let request = "GET \(Endpoints.events(space)) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n"
        connections = try (0..<count).map { _ in
            let connection = try Self.connect(UInt16(port))
            guard request.utf8CString.withUnsafeBytes({ write(connection, $0.baseAddress, $0.count - 1) }) == request.utf8.count else {
                throw Self.failure("a request could not be sent")
            }
            while try !Self.hasHead(connection) {}
            return connection
        }
    }

    func close() {
        for connection in connections { _ = Foundation.close(connection) }
    }

    /// The seconds from `start` until each stream has its next event.
    func waitForHead(since start: ContinuousClock.Instant) async throws -> [Double] {
        try await withCheckedThrowingContinuation { continuation in
            // The reader blocks its thread.
            Thread.detachNewThread { [connections] in
                continuation.resume(with: Result { try Self.wait(connections, since: start) })
            }
        }
    }

    private static func wait(_ connections: [Int32], since start: ContinuousClock.Instant) throws -> [Double] {
        var polled = connections.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var taken: [Double] = []
        while taken.count < connections.count {
            guard poll(&polled, nfds_t(polled.count), 30_000) > 0 else { throw failure("an event did not arrive in 30 s") }
            for index in polled.indices where polled[index].revents != 0 {
                guard try hasHead(polled[index].fd) else { continue }
                taken.append((ContinuousClock.now - start) / .seconds(1))
                // A negative descriptor is not polled.
                polled[index].fd = -1
            }
        }
        return taken
    }

    /// Reads what has arrived. Events are short and sent as one piece.
    private static func hasHead(_ connection: Int32) throws -> Bool {
        let text = try withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
            let count = read(connection, buffer.baseAddress, buffer.count)
            guard count > 0 else { throw failure("the relay closed an event stream, or an event did not arrive in 30 s") }
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
        guard !text.hasPrefix("HTTP/1.1 ") || text.hasPrefix("HTTP/1.1 200") else { throw failure("the relay answered: \(text)") }
        return text.contains("event: \(HeadEvent.name)")
    }

    private static func connect(_ port: UInt16) throws -> Int32 {
        #if canImport(Glibc)
            let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let connection = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let status = withUnsafeBytes(of: &address) { bytes in
            Foundation.connect(connection, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
        guard status == 0 else { throw failure("cannot connect to the relay") }
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        return connection
    }

    private static func allowFiles(_ count: Int) throws {
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        getrlimit(resource, &limit)
        guard limit.rlim_cur < count else { return }
        limit.rlim_cur = min(limit.rlim_max, rlim_t(count))
        guard setrlimit(resource, &limit) == 0, limit.rlim_cur >= count else { throw failure("\(count) open files are not allowed here") }
    }

    private static func failure(_ text: String) -> BareConnection.Failure { BareConnection.Failure(description: text) }
}
