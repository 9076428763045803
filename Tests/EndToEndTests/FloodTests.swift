import Foundation
import Testing

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Thousands of connections at a relay of its own process: it stays small, and serves whoever asks.
@Suite struct FloodTests {
    private static let connections = 2000

    @Test func `2,000 connections that ask halfway: memory is the same the second time, and a sync beside them succeeds`() async throws {
        try await Workshop.with { shop in
            let (url, program) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            let port = try #require(url.split(separator: ":").last.flatMap { UInt16($0) })
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            var sizes: [Int] = []
            for wave in 0..<3 {
                let open = try (0..<Self.connections).map { try Flood(port: port, Self.halves[$0 % Self.halves.count]) }
                try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern \(wave)' WHERE id = 1")
                let before = ContinuousClock.now
                try await shop.succeed("sync", "shop.db")
                #expect(ContinuousClock.now - before < .seconds(20))
                if let size = Self.residentKilobytes(program.id) { sizes.append(size) }
                withExtendedLifetime(open) {}
            }
            // Others' systems do not tell.
            guard let first = sizes.first, let last = sizes.last else { return }
            #expect(last < 250_000, "\(sizes) KB")
            #expect(last < first + first / 2, "\(sizes) KB")
        }
    }

    /// What each sends before it says no more: of a head, of a body, or nothing.
    private static let halves = [
        "", "GET /v1/spaces/shop HTTP/1.1\r\nHo", "GET /v1/spaces/shop/events HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.annals.batch\r\nContent-Length: 1000000\r\n\r\nhalf",
        "\u{16}\u{3}\u{1}",
    ]

    private static func residentKilobytes(_ process: Int32) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
    }
}

/// A connection that was begun and is held.
private final class Flood {
    struct Failed: Error { var code: Int32 }

    private let descriptor: Int32

    init(port: UInt16, _ text: String) throws {
        #if canImport(Glibc)
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard connected == 0 else { throw Failed(code: errno) }
        let bytes = Array(text.utf8)
        guard bytes.isEmpty || write(descriptor, bytes, bytes.count) == bytes.count else { throw Failed(code: errno) }
    }

    deinit { close(descriptor) }
}
