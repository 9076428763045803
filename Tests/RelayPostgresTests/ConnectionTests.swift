import AnnalsCore
import AnnalsWire
import Foundation
import RelayTestSupport
import Synchronization
import Testing

@testable import RelayLog
@testable import RelayPostgres

/// How a relay is connected to its database, and what it does when that goes quiet.
@Suite struct ConnectionTests {
    @Test func `a lost connection is said with its reason, and without the server's address`() throws {
        let messages = [
            #"connection to server at "10.1.2.3", port 5432 failed: Connection refused"#: "Connection refused",
            #"could not translate host name "db.example" to address: Name or service not known"#:
                "the connection was lost or cannot be made",
            "server closed the connection unexpectedly": "server closed the connection unexpectedly",
        ]
        for (message, expected) in messages {
            guard case .databaseAway(let reason) = PostgresError(state: "", message: message).logError else {
                Issue.record("no lost connection: \(message)")
                continue
            }
            #expect(reason == expected)
        }
        guard case .overloaded = PostgresError(state: "40001", message: "could not serialize access").logError else {
            Issue.record("a conflict is retried")
            return
        }
    }

    @Test func `what the address and libpq's environment say goes before the relay's own settings`() {
        let plain = PostgresConnection.settings("host=db", [:])
        #expect(plain.first { $0.name == "connect_timeout" }?.value == "10")
        #expect(plain.contains { $0.name == "tcp_user_timeout" } && plain.contains { $0.name == "keepalives_interval" })
        // libpq puts the address in the place of what comes before it.
        #expect(plain.suffix(2).map(\.name) == ["dbname", "client_encoding"])
        #expect(!PostgresConnection.settings("host=db", ["PGCONNECT_TIMEOUT": "2"]).contains { $0.name == "connect_timeout" })
    }

    @Test(.enabled(if: TestStorage.postgresByTCP != nil, "of PostgreSQL: Scripts/with-postgres starts one and names it"))
    func `relays that reach the database by TCP certify and wake as one`() async throws {
        let directory = try TemporaryDirectory()
        let relays = try (0..<2).map { _ in
            try RelayLog(database: TestStorage.database(directory.path, byTCP: true), logger: .silent)
        }
        let lineage = try await relays[0].createSpace(.shop).lineage
        async let page = relays[1].pull(from: .shop, after: .zero, wait: .seconds(60))
        while relays[1].waiterCount == 0 { await Task.yield() }
        var replica = TestReplica(1)
        #expect(try await relays[0].push(replica.batch(lineage, base: .zero, .writing(1))).outcome == .accepted)
        #expect(try await page.head == Position(1))
        for relay in relays { await relay.close() }
    }

    @Test(.enabled(if: TestStorage.postgresByTCP != nil, "of PostgreSQL: Scripts/with-postgres starts one and names it"))
    func `a watching client gets an answer while the server's processes stand still`() async throws {
        let directory = try TemporaryDirectory()
        let isStopped = Mutex(false)
        let clock = RelayClock(
            wall: RelayClock.system.wall, monotonic: RelayClock.system.monotonic,
            sleep: { duration in if !isStopped.withLock({ $0 }) { try await ContinuousClock().sleep(for: duration) } })
        let log = try RelayLog(database: TestStorage.database(directory.path, byTCP: true), clock: clock, logger: .silent)
        _ = try await log.createSpace(.shop)
        try await log.check()
        let processes = try await log.database.storage.read { db in
            let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = ?1"
            return try db.rows(sql, [TestStorage.schema(of: directory.path)]).map { pid_t(try $0.integer(0)) }
        }
        #expect(processes.count > 2)
        for process in processes { kill(process, SIGSTOP) }
        isStopped.withLock { $0 = true }
        // Every reader has its turn; one that was not yet connected would be answered by a process of its own.
        var failures = 0
        for _ in 0..<4 {
            do { try await log.check() } catch RelayLogError.storage { failures += 1 }
        }
        do { _ = try await log.usage(spaces: 1, replicas: 1, silence: 1) } catch RelayLogError.storage { failures += 1 }
        for process in processes { kill(process, SIGCONT) }
        isStopped.withLock { $0 = false }
        #expect(failures > 0)
        // Until what was asked has been answered.
        while (try? await log.check()) == nil { await Task.yield() }
        #expect(try await log.usage(spaces: 1, replicas: 1, silence: 1).spaceCount == 1)
        await log.close()
    }
}
