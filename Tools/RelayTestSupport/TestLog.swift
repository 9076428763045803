package import AnnalsCore
package import AnnalsWire
import Foundation
package import Logging
package import RelayLog
import RelayPostgres
import Synchronization
package import Testing

/// A directory that is removed after the test.
package final class TemporaryDirectory: Sendable {
    package let path: String

    package init() throws {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("annals-relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    package func files(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: (path as NSString).appendingPathComponent(folder)).sorted()
    }
}

/// The storage of the logs in a test run: files, or PostgreSQL if `ANNALS_TEST_POSTGRES` names a server. Each directory is then a
/// schema of its own.
package enum TestStorage {
    package static let postgres = ProcessInfo.processInfo.environment["ANNALS_TEST_POSTGRES"]

    /// The same server over TCP, with a password.
    package static let postgresByTCP = ProcessInfo.processInfo.environment["ANNALS_TEST_POSTGRES_TCP"]

    package static func database(_ directory: String, byTCP: Bool = false) throws -> RelayDatabase {
        guard let postgres = byTCP ? postgresByTCP : postgres else { return try RelayDatabase(directory: directory) }
        let schema = schema(of: directory)
        let url = "\(postgres) application_name=\(schema) options='-c search_path=\(schema)'"
        // Only two readers, because all tests run at the same time and each has its own relays.
        return try PostgresDatabase.relayDatabase(url: url, readers: 2, creating: schema)
    }

    /// Also the application name of its connections.
    package static func schema(of directory: String) -> String {
        "t" + directory.suffix(36).filter { $0 != "-" }.lowercased()
    }

    package static func log(
        _ directory: String, limits: RelayLogLimits = RelayLogLimits(), autoVoid: Int = 0, clock: RelayClock = .system
    ) throws -> RelayLog {
        try RelayLog(database: database(directory), limits: limits, autoVoid: autoVoid, clock: clock, logger: .silent)
    }
}

extension Trait where Self == ConditionTrait {
    /// For tests that apply only to SQLite files.
    package static var filesOnly: Self { .enabled(if: TestStorage.postgres == nil, "of files, and this run's logs are in PostgreSQL") }
}

/// A clock that stands still until it is advanced.
package final class TestClock: Sendable {
    private let milliseconds = Mutex<Int64>(1_700_000_000_000)

    package init() {}

    package var now: Int64 { milliseconds.withLock { $0 } }

    package func advance(milliseconds step: Int64) {
        milliseconds.withLock { $0 += step }
    }

    package var clock: RelayClock {
        RelayClock(wall: { self.now }, monotonic: { self.now })
    }
}

extension Logger {
    package static var silent: Logger {
        Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    }
}

extension SpaceName {
    package static let shop = SpaceName(knownGood: "shop")
    package static let other = SpaceName(knownGood: "other")

    private init(knownGood text: String) {
        guard let name = SpaceName(text) else { preconditionFailure("not a space's name") }
        self = name
    }
}

extension RelayLog {
    /// Pushes a batch as a client's request would.
    package func push(_ batch: TestBatch, to space: SpaceName = .shop) async throws -> PushAnswer {
        let bytes = batch.bytes
        return try await push(bytes, header: try BatchHeader.parse(bytes), to: space)
    }
}
