internal import AnnalsCore
internal import Dispatch
internal import RelayLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Receives the heads that other relays announce. Announcements are lost while the connection is lost, so after a
/// reconnect it reads all heads.
final class HeadListener: Sendable {
    private let queue = DispatchQueue(label: "annals.relay.listener")
    private let lane: State

    /// Used only on the queue.
    private final class State: @unchecked Sendable {
        let connection: PostgresConnection
        var isClosed = false
        var source: (any DispatchSourceRead)?
        init(_ connection: PostgresConnection) { self.connection = connection }
    }

    /// The time between two attempts to connect.
    private static let pause = DispatchTimeInterval.seconds(1)

    private let visit: @Sendable (SpaceName, Position) -> Void

    init(url: String, _ visit: @escaping @Sendable (SpaceName, Position) -> Void) {
        lane = State(PostgresConnection(url: url))
        self.visit = visit
        queue.async { self.begin() }
    }

    func close() {
        queue.sync {
            lane.isClosed = true
            lane.source?.cancel()
            lane.source = nil
            lane.connection.disconnect()
        }
    }

    private func begin() {
        guard !lane.isClosed else { return }
        do {
            try lane.connection.listen()
            for (space, head) in try LogStorage.heads(in: lane.connection) { visit(space, head) }
            guard let socket = lane.connection.socket else { return again() }
            let source = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
            source.setEventHandler { self.read() }
            lane.source = source
            source.resume()
            read()
        } catch {
            again()
        }
    }

    private func read() {
        guard !lane.isClosed else { return }
        do {
            for payload in try lane.connection.notifications() {
                let parts = payload.split(separator: " ")
                guard parts.count == 2, let space = SpaceName(String(parts[0])), let head = Int64(parts[1]) else { continue }
                visit(space, Position(head))
            }
        } catch {
            again()
        }
    }

    private func again() {
        lane.source?.cancel()
        lane.source = nil
        lane.connection.disconnect()
        queue.asyncAfter(deadline: .now() + Self.pause) { self.begin() }
    }
}
