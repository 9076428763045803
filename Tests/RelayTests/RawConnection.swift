import Dispatch
import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A plain connection to a local port. It can send bytes that no correct client would send, and shows the received bytes.
final class RawConnection: Sendable {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private let descriptor: Int32
    private let queue = DispatchQueue(label: "raw connection")

    /// - Parameter timeoutSeconds: How long a read waits for the next bytes. Normally longer than the suite's own limit, since a loaded
    ///   machine may take any time to answer.
    init(port: Int, timeoutSeconds: Int = 3600) throws {
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
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failure(description: "connect: \(String(cString: strerror(errno)))") }
        var timeout = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// Ends sending. Reading is still possible.
    func finishSending() {
        #if canImport(Glibc)
            shutdown(descriptor, Int32(SHUT_WR))
        #else
            shutdown(descriptor, SHUT_WR)
        #endif
    }

    func send(_ text: String) throws {
        try send(Array(text.utf8))
    }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent) }
            guard count > 0 else { throw Failure(description: "write: \(String(cString: strerror(errno)))") }
            sent += count
        }
    }

    /// Reads until the text has `ending`. Without it, reads until the other side closes.
    func read(until ending: String?) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.readBlocking(until: ending) }) }
        }
    }

    /// The number of bytes until the other side closes or resets.
    func readCount() async throws -> Int {
        try await withCheckedThrowingContinuation { continuation in
            queue.async {
                var buffer = [UInt8](repeating: 0, count: 65_536)
                var total = 0
                while case let count = recv(self.descriptor, &buffer, buffer.count, 0), count > 0 { total += count }
                continuation.resume(returning: total)
            }
        }
    }

    private func readBlocking(until ending: String?) throws -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if let ending, text.contains(ending) { return text }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count == 0 {
                guard ending == nil else { throw Failure(description: "closed after: \(text)") }
                return text
            }
            guard count > 0 else { throw Failure(description: "read: \(String(cString: strerror(errno))) after: \(text)") }
            bytes += buffer[..<count]
        }
    }
}
