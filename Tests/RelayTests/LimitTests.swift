import AnnalsCore
import AnnalsWire
import HTTPTypes
import Hummingbird
import RelayLog
import RelayTestSupport
import Synchronization
import Testing

@testable import Relay

/// The limits of the relay, each with the answer of its table.
@Suite struct LimitTests {
    let clock = TestClock()

    @Test func `requests of one token beyond its rate get 429 and the time to wait; others go on`() async throws {
        var limits = RelayLimits()
        (limits.requestsPerSecond, limits.requestBurst) = (2, 3)
        let rate = RateLimit(limits: limits, clock: clock.clock)
        func isTaken(_ key: RateLimit.Key) -> Bool { (try? rate.take(key)) != nil }
        for _ in 0..<3 { #expect(isTaken(.token(1))) }
        #expect { try rate.take(.token(1)) } throws: { error in
            guard let error = error as? RelayLogError else { return false }
            let problem = ProblemResponse(error)
            return problem.problem.status == 429 && problem.headers[.retryAfter] == "1"
        }
        #expect(isTaken(.token(2)) && isTaken(.subject("1")) && isTaken(.address("1")))
        clock.advance(milliseconds: 499)
        #expect(!isTaken(.token(1)))
        clock.advance(milliseconds: 1)
        #expect(isTaken(.token(1)) && !isTaken(.token(1)))
        // A pause does not fill it beyond its size.
        clock.advance(milliseconds: 3_600_000)
        #expect((0..<10).filter { _ in isTaken(.token(1)) }.count == 3)
    }

    @Test func `a rate is kept for each token, health has none, and many tokens take no memory`() async throws {
        var limits = RelayLimits()
        (limits.requestsPerSecond, limits.requestBurst) = (1, 2)
        let fixture = try RelayFixture(noAuthorization: false, limits: limits, clock: clock.clock)
        _ = try await fixture.log.createSpace(.shop)
        let (one, _) = try await fixture.log.tokens.create(scope: .read)
        let (other, _) = try await fixture.log.tokens.create(scope: .read)
        try await fixture.run { client in
            for _ in 0..<2 { #expect(try await client.with(token: one).send(.get, "/v1/spaces/shop").status == .ok) }
            let refused = try await client.with(token: one).send(.get, "/v1/spaces/shop")
            try refused.expectProblem(429, "too-many-requests")
            #expect(refused.headers[.retryAfter] == "1")
            #expect(try await client.with(token: other).send(.get, "/v1/spaces/shop").status == .ok)
            for _ in 0..<5 { #expect(try await client.send(.get, Endpoints.live).status == .ok) }
            // A request with a refused token does not count.
            for _ in 0..<5 { try await client.with(token: "ann_x").send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated") }
        }
        let rate = RateLimit(limits: limits, clock: clock.clock)
        for number in 0..<50_000 { try rate.take(.subject("\(number)")) }
        #expect(rate.count <= 16_384)
    }

    @Test func `event streams have a limit of their own, and an ended one makes room`() async throws {
        let streams = Shares(.eventStreams, total: 2, percents: SharePercents(), retryAfterSeconds: 1)
        var first: Shares.Lease? = try streams.lease(by: Taker())
        let second = try streams.lease(by: Taker())
        #expect(first != nil && (try? streams.lease(by: Taker())) == nil && streams.used == 2)
        first = nil
        #expect((try? streams.lease(by: Taker())) != nil && streams.used == 1)
        withExtendedLifetime((first, second)) {}

        var limits = RelayLimits()
        limits.eventStreams = 0
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            _ = try await client.create()
            let response = try await client.send(.get, "/v1/spaces/shop/events")
            try response.expectProblem(503, "unavailable")
            #expect(response.headers[.retryAfter] != nil)
            #expect(try await client.send(.get, "/v1/spaces/shop/entries?after=0&wait=0").status == .ok)
        }
    }

    @Test func `a page and a waiting pull are no larger and no longer than the relay allows`() async throws {
        var limits = RelayLimits()
        (limits.pageBytes, limits.waitSeconds) = (1, 1)
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            for number in 0..<3 {
                let batch = replica.batch(lineage, base: Position(replica.counter.rawValue), .writing(UInt64(number)))
                #expect(try await client.push(batch.bytes).status == .ok)
                replica.accept(batch)
            }
            let page = try Page.decode(try await client.send(.get, "/v1/spaces/shop/entries?after=0&limit=1000000").bytes)
            #expect(page.frames.count == 1 && page.head == Position(3))
            // The answer comes before the requested minute.
            let waited = try Page.decode(try await client.send(.get, "/v1/spaces/shop/entries?after=3&wait=60").bytes)
            #expect(waited.frames.isEmpty)
        }
    }

    @Test func `a transaction in parts is refused where it gets too large`() async throws {
        var limits = RelayLimits()
        limits.transactionBytes = 5000
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let parts = replica.parts(lineage, base: .zero, .writing(1), count: 10)
            var statuses: [Int] = []
            for var part in parts {
                part.payload = [UInt8](repeating: 1, count: 1000)
                let response = try await client.push(part.bytes)
                statuses.append(response.status.code)
                if response.status != .ok {
                    let problem = try response.expectProblem(413, "too-large")
                    #expect(problem.detail?.contains("5000") == true)
                    break
                }
            }
            #expect(statuses.count > 2 && statuses.last == 413)
        }
    }

    @Test func `snapshots being received have a number of their own`() async throws {
        var limits = RelayLimits()
        limits.snapshotUploads = 0
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            _ = try await client.create()
            let upload = try await client.upload([1], position: 0)
            try upload.expectProblem(503, "unavailable")
            #expect(upload.headers[.retryAfter] != nil)
        }
    }

    @Test func `what is unpacked larger than a batch may be is refused`() async throws {
        var limits = RelayLimits()
        limits.batch.plainBytes = 500
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1), payload: [UInt8](repeating: 1, count: 1000))
            try await client.push(batch.bytes).expectProblem(413, "too-large")
        }
    }

    @Test func `a space's snapshot is not larger than the space may be`() async throws {
        var limits = RelayLimits()
        limits.spaceBytes = 100
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            _ = try await client.create()
            try await client.upload(bytes: [UInt8](repeating: 1, count: 101), position: 0).expectProblem(413, "too-large")
            #expect(try await client.upload([1], position: 0).status == .created)
        }
    }

    @Test(arguments: [(files: Int.max, expected: 16_384), (20_000, 16_384), (1024, 896), (80, 16)])
    func `there are no more connections than files may be opened`(files: Int, expected: Int) {
        #expect(RelayServer.connections(RelayLimits(), files: files) == expected)
    }

    @Test func `a space too many is refused, those there are go on`() async throws {
        var limits = RelayLimits()
        limits.spaces = 1
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            _ = try await client.create()
            try await client.send(.put, "/v1/spaces/other").expectProblem(507, "too-many-spaces")
            try await client.send(.put, "/v1/spaces/shop").expectProblem(409, "space-exists")
            #expect(try await client.send(.get, "/v1/spaces/shop").status == .ok)
        }
    }

    @Test func `a full space takes no pushes, gives what it has, and takes them again after a purge`() async throws {
        var limits = RelayLimits()
        limits.spaceBytes = 3000
        let fixture = try RelayFixture(limits: limits, clock: clock.clock)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            func push() async throws -> TestResponse {
                let base = Position(replica.counter.rawValue)
                let batch = replica.batch(lineage, base: base, .writing(1), payload: [UInt8](repeating: 1, count: 1000))
                let response = try await client.push(batch.bytes)
                if response.status == .ok { replica.accept(batch) }
                return response
            }
            for _ in 0..<2 { #expect(try await push().status == .ok) }
            let problem = try await push().expectProblem(507, "space-full")
            #expect(problem.hint?.contains("reads still work") == true)
            #expect(try await client.send(.get, "/v1/spaces/shop/entries?after=0").status == .ok)
            // A snapshot is accepted in any case, because without one nothing could be purged.
            #expect(try await client.upload([1, 2, 3], position: 2).status == .created)
            try await push().expectProblem(507, "space-full")
            var rules = PurgeRules()
            (rules.keep, rules.isForced) = (0, true)
            clock.advance(milliseconds: 10_000)
            #expect(try await fixture.log.purge(.shop, rules).horizon == Position(2))
            for _ in 0..<2 { #expect(try await push().status == .ok) }
            try await push().expectProblem(507, "space-full")
        }
    }

    @Test func `a disk down to its reserve: nothing is written, and all that is there is given`() async throws {
        var limits = RelayLimits()
        limits.diskReserveBytes = 1000
        let free = FreeBytes(2000)
        let directory = try TemporaryDirectory()
        let log = try RelayLog(
            database: TestStorage.database(directory.path), limits: limits.log, clock: clock.clock, logger: .silent,
            freeBytes: { free.value })
        let configuration = RelayConfiguration(storage: .directory(directory.path), noAuthorization: true, limits: limits)
        let client = RelayClient(responder: Routes.responder(log: log, configuration: configuration))
        let lineage = try await client.create().lineage
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        #expect(try await client.push(batch.bytes).status == .ok)
        replica.accept(batch)
        #expect(try await client.upload([1], position: 1).status == .created)

        free.value = 1000
        // The free space is not checked each time.
        #expect(!log.reserve.isReached)
        clock.advance(milliseconds: 1000)
        try await client.push(replica.batch(lineage, base: .zero, .writing(2)).bytes).expectProblem(507, "storage-full")
        try await client.upload([1, 2], position: 1).expectProblem(507, "storage-full")
        try await client.send(.put, "/v1/spaces/other").expectProblem(507, "storage-full")
        for path in ["", "/entries?after=0", "/snapshot"] { #expect(try await client.send(.get, "/v1/spaces/shop" + path).status == .ok) }

        free.value = 2000
        clock.advance(milliseconds: 1000)
        #expect(try await client.push(replica.batch(lineage, base: .zero, .writing(2)).bytes).status == .ok)
        await log.close()
    }

    @Test func `a snapshot that comes in while the disk fills up is let go`() async throws {
        var limits = RelayLogLimits()
        limits.diskReserveBytes = 1000
        let free = FreeBytes(2000)
        let directory = try TemporaryDirectory()
        let log = try RelayLog(
            database: TestStorage.database(directory.path), limits: limits, clock: clock.clock, logger: .silent, freeBytes: { free.value })
        _ = try await log.createSpace(.shop)
        let upload = try await log.snapshots.begin(.shop, position: .zero)
        try await upload.write(Array(TestSnapshot.bytes().prefix(9)))
        free.value = 500
        clock.advance(milliseconds: 1000)
        await #expect(throws: RelayLogError.self) { try await upload.write([4]) }
        #expect(await upload.hasEnded)
        await log.close()
    }

    @Test(.filesOnly) func `a snapshot without room beside the reserve is refused before its first byte`() async throws {
        var limits = RelayLimits()
        limits.diskReserveBytes = 1000
        let free = FreeBytes(6000)
        let directory = try TemporaryDirectory()
        let log = try RelayLog(
            database: TestStorage.database(directory.path), limits: limits.log, clock: clock.clock, logger: .silent,
            freeBytes: { free.value })
        let configuration = RelayConfiguration(storage: .directory(directory.path), noAuthorization: true, limits: limits)
        let client = RelayClient(responder: Routes.responder(log: log, configuration: configuration))
        _ = try await client.create()
        let all = TestSnapshot.bytes((0..<6000).map { _ in UInt8.random(in: 0 ... .max) })
        // As a whole, as the question before the parts, and as the first part.
        try await client.upload(bytes: all, position: 0).expectProblem(507, "storage-full")
        for range in ["*", "0-9"] {
            let part = range == "*" ? [] : Array(all[..<10])
            let headers: HTTPFields = [
                .contentType: Endpoints.MediaType.snapshot, .digest: Digest.sha256(all[...]).description,
                .contentRange: "bytes \(range)/\(all.count)",
            ]
            try await client.send(.put, "/v1/spaces/shop/snapshot?position=0", headers: headers, body: part)
                .expectProblem(507, "storage-full")
        }
        #expect(try directory.files(in: "snapshots").isEmpty)
        #expect(try await client.send(.get, Endpoints.ready).status == .ok)

        // Two fit one after the other, and not together.
        let first = try await log.snapshots.begin(.shop, position: .zero, of: 3000)
        await #expect {
            _ = try await log.snapshots.begin(.shop, position: .zero, of: 3000)
        } throws: { error in
            if case .quota(.snapshotUploads, .relay, _)? = error as? RelayLogError { true } else { false }
        }
        await first.abandon()
        let second = try await log.snapshots.begin(.shop, position: .zero, of: 3000)
        await second.abandon()
        await log.close()
    }

    @Test(.filesOnly) func `how much is free is asked of the folder's file system`() throws {
        let directory = try TemporaryDirectory()
        let log = try TestStorage.log(directory.path)
        let free = try #require(log.reserve.freeBytes)
        #expect(free > 0)
    }
}

/// The free bytes that a test sets.
private final class FreeBytes: Sendable {
    private let bytes: Mutex<Int64>

    init(_ value: Int64) { bytes = Mutex(value) }

    var value: Int64 {
        get { bytes.withLock { $0 } }
        set { bytes.withLock { $0 = newValue } }
    }
}
