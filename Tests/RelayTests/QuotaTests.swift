import AnnalsCore
import AnnalsWire
import HTTPTypes
import Hummingbird
import NIOCore
import NIOEmbedded
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// One token, space or address gets a share of the common limits, and the rest stays for others.
@Suite(.timeLimit(.minutes(20))) struct QuotaTests {
    let clock = TestClock()

    private func fixture(_ change: (inout RelayLimits) -> Void = { _ in }) async throws -> RelayFixture {
        var limits = RelayLimits()
        change(&limits)
        let fixture = try RelayFixture(noAuthorization: false, limits: limits, clock: clock.clock)
        _ = try await fixture.log.createSpace(.shop)
        _ = try await fixture.log.createSpace(.other)
        return fixture
    }

    private func token(_ fixture: RelayFixture, _ space: SpaceName?, _ scope: TokenScope = .write) async throws -> String {
        try await fixture.log.tokens.create(space: space, scope: scope).secret
    }

    @Test func `a token, a space and an address have shares of the whole, which they get back`() throws {
        let shares = Shares(.bodyBytes, total: 100, percents: SharePercents(), retryAfterSeconds: 3)
        func isTaken(_ amount: Int, _ taker: Taker, held: Int? = nil) -> QuotaBound? {
            do throws(RelayLogError) {
                try shares.take(amount, by: taker, held: held)
                return nil
            } catch {
                guard case .quota(.bodyBytes, let bound, retryAfterSeconds: 3) = error else { return .relay }
                return bound
            }
        }
        let one = Taker(credential: .token(1), space: .shop, network: "192.0.2.1")
        #expect(isTaken(25, one) == nil)
        #expect(isTaken(1, one) == .token)
        let two = Taker(credential: .token(2), space: .shop, network: "192.0.2.2")
        #expect(isTaken(25, two) == nil)
        #expect(isTaken(1, Taker(credential: .token(3), space: .shop)) == .space)
        #expect(isTaken(25, Taker(credential: .token(3), space: .other, network: "192.0.2.1")) == nil)
        #expect(isTaken(1, Taker(network: "192.0.2.1")) == .address)
        #expect(isTaken(26, Taker()) == .relay)
        shares.give(25, by: one)
        #expect(isTaken(25, one) == nil)
        // A request that is larger than a share is accepted if it is alone.
        for taker in [one, two] { shares.give(25, by: taker) }
        #expect(isTaken(60, two) == .token)
        #expect(isTaken(60, two, held: 0) == nil && isTaken(10, two, held: 60) == nil && isTaken(1, two, held: 0) == .token)
    }

    @Test(arguments: [
        ("192.0.2.7", "192.0.2.7"), ("127.0.0.1", nil), ("::1", nil), ("", nil), ("::ffff:127.0.0.1", nil),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "20:1:d:b8:0:1:0:2/64"), ("fe80::1%eth0", "fe:80:0:0:0:0:0:0/64"), ("name", nil), ("%", nil),
    ])
    func `an IPv6 address counts as its network, and this machine's own as none`(address: String, network: String?) {
        #expect(PeerNetwork.name(of: address) == network)
    }

    @Test func `bodies that stall hold their token's share, and forty pushes of another space get through`() async throws {
        let reader = BodyReader(budget: 1000)
        let (slow, quick) = (Taker(credential: .token(1), space: .shop), Taker(credential: .token(2), space: .other))
        func request(_ body: RequestBody) -> Request {
            Request(head: HTTPRequest(method: .post, scheme: "http", authority: "localhost", path: "/", headerFields: [:]), body: body)
        }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            var senders: [AsyncStream<ByteBuffer>.Continuation] = []
            for _ in 0..<7 {
                let (bytes, sender) = AsyncStream<ByteBuffer>.makeStream()
                senders.append(sender)
                sender.yield(ByteBuffer(repeating: 1, count: 200))
                group.addTask {
                    do {
                        return try await reader.withBody(of: request(RequestBody(asyncSequence: bytes)), limit: 10_000, by: slow) { _ in
                            true
                        }
                    } catch RelayLogError.quota(.bodyBytes, .token, retryAfterSeconds: 1) {
                        return false
                    }
                }
            }
            // One of them fits into the share of 250 bytes.
            var refused = 0
            while refused < 6, let isTaken = try await group.next() { refused += isTaken ? 0 : 1 }
            #expect(reader.used == 200)
            for _ in 0..<40 {
                let body = RequestBody(buffer: ByteBuffer(repeating: 1, count: 200))
                #expect(try await reader.withBody(of: request(body), limit: 10_000, by: quick) { $0.count } == 200)
            }
            for sender in senders { sender.finish() }
            #expect(try await group.next() == true)
        }
        #expect(reader.used == 0)
    }

    /// Uploads a part, or all of it. An empty range asks how many bytes the relay has.
    private func upload(
        _ client: RelayClient, _ number: Int, to space: SpaceName, _ part: Range<Int>? = nil
    ) async throws -> TestResponse {
        let all = TestSnapshot.bytes([UInt8(number)])
        let (range, total) = (part ?? all.indices, all.count)
        let text = range.isEmpty ? "bytes */\(total)" : "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total)"
        return try await client.send(
            .put, Endpoints.snapshot(space) + "?position=0",
            headers: [
                .contentType: Endpoints.MediaType.snapshot, .digest: Digest.sha256(all[...]).description, .contentRange: text,
            ], body: Array(all[range]))
    }

    @Test func `questions about uploads hold no place, and one token's uploads leave places for others`() async throws {
        let fixture = try await fixture()
        let (one, other) = (try await token(fixture, .shop), try await token(fixture, .other))
        try await fixture.run { client in
            for number in 0..<20 { #expect(try await upload(client.with(token: one), number, to: .shop, 0..<0).status == .accepted) }
            for number in 0..<4 { #expect(try await upload(client.with(token: one), number, to: .shop, 0..<5).status == .accepted) }
            let refused = try await upload(client.with(token: one), 4, to: .shop, 0..<5)
            #expect(try refused.expectProblem(503, "unavailable").detail?.contains("this token") == true)
            #expect(refused.headers[.retryAfter] == "10")
            #expect(try await upload(client.with(token: other), 9, to: .other).status == .created)
            // Existing uploads continue, until they have been idle for too long.
            #expect(try await upload(client.with(token: one), 0, to: .shop, 5..<6).status == .accepted)
            clock.advance(milliseconds: 599_000)
            #expect(try await upload(client.with(token: one), 1, to: .shop, 5..<6).status == .accepted)
            clock.advance(milliseconds: 1_000)
            try await fixture.log.upkeep()
            #expect(try await upload(client.with(token: one), 0, to: .shop, 0..<0).headers[.offset] == "0")
            #expect(try await upload(client.with(token: one), 1, to: .shop, 0..<0).headers[.offset] == "6")
            for number in 5..<8 { #expect(try await upload(client.with(token: one), number, to: .shop, 0..<5).status == .accepted) }
        }
    }

    /// An answer with a body that nothing reads.
    private func open(_ client: RelayClient, _ token: String, _ path: String) async throws -> Response {
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "localhost", path: path, headerFields: [.authorization: "Bearer \(token)"])
        return try await client.responder.respond(
            to: Request(head: head, body: RequestBody(buffer: ByteBuffer())),
            context: RelayRequestContext(source: .init(channel: NIOAsyncTestingChannel(), logger: .silent)))
    }

    @Test func `one reader takes its share of event streams and of waits, and others still watch`() async throws {
        let fixture = try await fixture {
            $0.eventStreams = 8
            $0.waiters = 16
        }
        let (one, other) = (try await token(fixture, .shop, .read), try await token(fixture, .other, .read))
        try await fixture.run { client in
            var streams: [Response] = []
            for _ in 0..<2 { streams.append(try await open(client, one, "/v1/spaces/shop/events")) }
            #expect(streams.allSatisfy { $0.status == .ok })
            let refused = try await client.with(token: one).send(.get, "/v1/spaces/shop/events")
            #expect(try refused.expectProblem(503, "unavailable").hint?.contains("token-share-percent") == true)
            #expect(refused.headers[.retryAfter] != nil)
            streams.append(try await open(client, other, "/v1/spaces/other/events"))
            #expect(streams[2].status == .ok)
            // Two more wait in a pull. These are four of sixteen.
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<2 {
                    group.addTask { try await client.with(token: one).send(.get, "/v1/spaces/shop/entries?after=0&wait=60").status.code }
                }
                while fixture.log.waiterCount < 2 { await Task.yield() }
                try await client.with(token: one).send(.get, "/v1/spaces/shop/entries?after=0&wait=60").expectProblem(503, "unavailable")
                #expect(try await client.with(token: one).send(.get, "/v1/spaces/shop/entries?after=0").status == .ok)
                #expect(try await client.with(token: other).send(.get, "/v1/spaces/other/entries?after=0&wait=1").status == .ok)
                fixture.log.endWaits()
                for try await status in group { #expect(status == 200) }
            }
            withExtendedLifetime(streams) {}
        }
    }

    @Test func `wrong tokens of one address are limited, and a good one from there gets through`() async throws {
        let fixture = try await fixture { $0.failedLoginsPerMinute = 5 }
        let good = try await token(fixture, .shop, .read)
        let admin = try await token(fixture, nil, .admin)
        try await fixture.run { client in
            for number in 0..<5 {
                let wrong = client.with(token: "ann_" + String(repeating: "\(number)", count: 43))
                try await wrong.send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
            }
            // The metrics check tokens themselves.
            for path in ["/v1/spaces/shop", Endpoints.metrics] {
                let refused = try await client.with(token: "ann_" + String(repeating: "x", count: 43)).send(.get, path)
                #expect(try refused.expectProblem(429, "too-many-requests").detail?.contains("this address") == true)
                #expect(refused.headers[.retryAfter] == "12")
            }
            #expect(try await client.with(token: good).send(.get, "/v1/spaces/shop").status == .ok)
            let metrics = String(decoding: try await client.with(token: admin).send(.get, Endpoints.metrics).bytes, as: UTF8.self)
            #expect(metrics.contains("annals_relay_quota_refusals_total{bound=\"address\",quota=\"failed-logins\"} 2"))
            clock.advance(milliseconds: 12_000)
            try await client.with(token: nil).send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
            try await client.with(token: nil).send(.get, "/v1/spaces/shop").expectProblem(429, "too-many-requests")
        }
    }

    @Test func `a token may create a limited number of spaces, also in an hour; an administrator may create more`() async throws {
        let fixture = try await fixture {
            $0.log.spacesPerToken = 3
            $0.newSpacesPerHour = 2
        }
        let (one, other) = (try await token(fixture, nil), try await token(fixture, nil))
        let admin = try await token(fixture, nil, .admin)
        try await fixture.run { client in
            func make(_ name: String, _ token: String) async throws -> TestResponse {
                try await client.with(token: token).send(.put, "/v1/spaces/\(name)")
            }
            for name in ["a", "b"] { #expect(try await make(name, one).status == .created) }
            let refused = try await make("c", one)
            try refused.expectProblem(429, "too-many-requests")
            #expect(refused.headers[.retryAfter] == "1800")
            // Requests for existing spaces get their normal answer.
            try await make("a", one).expectProblem(409, "space-exists")
            #expect(try await make("c", other).status == .created)
            clock.advance(milliseconds: 3_600_000)
            #expect(try await make("d", one).status == .created)
            #expect(try await make("e", one).expectProblem(507, "too-many-spaces").detail?.contains("3 spaces") == true)
            for number in 0..<5 { #expect(try await make("admin\(number)", admin).status == .created) }
            // A deleted space makes room.
            #expect(try await client.with(token: admin).send(.delete, "/v1/spaces/a?confirm=a").status == .noContent)
            clock.advance(milliseconds: 3_600_000)
            #expect(try await make("e", one).status == .created)
        }
    }

    @Test func `an address makes so many spaces an hour, with all its tokens`() async throws {
        let fixture = try await fixture { $0.newSpacesPerHourOfAddress = 2 }
        let (one, other) = (try await token(fixture, nil), try await token(fixture, nil))
        try await fixture.run { client in
            func make(_ name: String, _ token: String, from address: String) async throws -> TestResponse {
                var client = client.with(token: token)
                client.address = address
                return try await client.send(.put, "/v1/spaces/\(name)")
            }
            #expect(try await make("a", one, from: "192.0.2.1").status == .created)
            #expect(try await make("b", other, from: "192.0.2.1").status == .created)
            let refused = try await make("c", other, from: "192.0.2.1")
            #expect(try refused.expectProblem(429, "too-many-requests").detail?.contains("this address") == true)
            #expect(refused.headers[.retryAfter] == "1800")
            #expect(try await make("c", other, from: "192.0.2.2").status == .created)
            // A proxy in front of the relay may be on this machine.
            for name in ["d", "e", "f"] { #expect(try await make(name, one, from: "127.0.0.1").status == .created) }
        }
    }

    @Test func `a token pushes as so many replicas of a space`() async throws {
        let fixture = try await fixture { $0.log.replicasPerToken = 2 }
        let (one, other) = (try await token(fixture, .shop), try await token(fixture, .shop))
        let lineage = try await fixture.log.describe(.shop).lineage
        try await fixture.run { client in
            func push(_ number: UInt64, _ token: String) async throws -> TestResponse {
                var replica = TestReplica(number)
                return try await client.with(token: token).push(replica.batch(lineage, base: .zero, .writing(number)).bytes)
            }
            for number in 1...2 { #expect(try await push(UInt64(number), one).status == .ok) }
            try await push(3, one).expectProblem(507, "too-many-replicas")
            #expect(try await push(1, one).status == .ok)
            #expect(try await push(4, other).status == .ok)
            // A retired replica makes room.
            #expect(try await fixture.log.retire(TestReplica(1).id, of: .shop))
            #expect(try await push(3, one).status == .ok)
        }
    }

    @Test func `parts that wait are bounded for a token and a space, and expire`() async throws {
        let fixture = try await fixture {
            $0.log.tokenPartBytes = 2_500
            $0.log.spacePartBytes = 3_500
        }
        let (one, other) = (try await token(fixture, .shop), try await token(fixture, .shop))
        let lineage = try await fixture.log.describe(.shop).lineage
        try await fixture.run { client in
            func part(_ number: UInt64, _ index: Int, _ token: String) async throws -> TestResponse {
                var replica = TestReplica(number)
                var part = replica.parts(lineage, base: .zero, .writing(number), count: 2)[index]
                part.payload = [UInt8](repeating: 1, count: 800)
                return try await client.with(token: token).push(part.bytes)
            }
            for number in 1...2 { #expect(try await part(UInt64(number), 0, one).status == .ok) }
            let refused = try await part(3, 0, one)
            #expect(try refused.expectProblem(503, "unavailable").detail?.contains("this token") == true)
            #expect(refused.headers[.retryAfter] == "60")
            #expect(try await part(4, 0, other).status == .ok)
            #expect(try await part(5, 0, other).expectProblem(503, "unavailable").detail?.contains("this space") == true)
            clock.advance(milliseconds: 80_000_000)
            // A known part is answered, and does not extend the time.
            #expect(try await part(1, 0, one).status == .ok)
            clock.advance(milliseconds: 6_400_001)
            try await fixture.log.upkeep()
            let late = try PushAnswer.decode(try await part(1, 1, one).bytes)
            #expect(late.outcome == .partsMissing)
            for number in 1...2 { #expect(try await part(UInt64(number), 0, one).status == .ok) }
            #expect(try await PushAnswer.decode(part(1, 1, one).bytes).outcome == .accepted)
        }
    }
}
