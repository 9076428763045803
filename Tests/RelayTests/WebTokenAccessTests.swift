import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import RelayLog
import RelayTestSupport
import ServiceLifecycle
import Testing

@testable import Relay

/// Requests to the relay's addresses with JSON Web Tokens.
@Suite struct WebTokenAccessTests {
    let clock = TestClock()
    let provider: TestProvider

    init() { provider = TestProvider(clock) }

    private func run(
        _ key: TestProvider.Key, _ published: PublishedKeys? = nil, _ body: (RelayClient, RelayFixture) async throws -> Void
    ) async throws {
        let fixture = try RelayFixture(noAuthorization: false, clock: clock.clock)
        let keys = try published ?? PublishedKeys(TestProvider.set([key]))
        let verifier = try await keys.verifier(clock)
        let responder = Routes.responder(log: fixture.log, configuration: fixture.configuration, webTokens: verifier)
        try await body(RelayClient(responder: responder), fixture)
    }

    @Test func `scopes hold in each space, and whether another exists cannot be learnt`() async throws {
        let key = try await TestProvider.es256("a")
        let claim = ["shop": "write", "books": "read"]
        let token = try provider.token(key, ["annals": claim])
        try await run(key) { client, fixture in
            let client = client.with(token: token)
            let lineage = try await client.create().lineage
            let books = try #require(SpaceName("books"))
            _ = try await fixture.log.createSpace(books)
            _ = try await fixture.log.createSpace(.other)
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1)).bytes
            #expect(try await client.push(batch).status == .ok)
            #expect(try await client.send(.get, "/v1/spaces/books").status == .ok)
            try await client.push(batch, to: books).expectProblem(403, "not-permitted")
            for (method, path) in AuthorizationTests.requests where path.hasPrefix("/v1/spaces/shop") && method != .delete {
                let there = try await client.send(method, path.replacing("shop", with: "other")).expectProblem(403, "not-permitted")
                var absent = try await client.send(method, path.replacing("shop", with: "none")).expectProblem(403, "not-permitted")
                absent.detail = absent.detail?.replacing("none", with: "other")
                #expect(there == absent)
            }
        }
    }

    @Test func `a refused token is answered 401 with the reason and nothing of it; the relay's own tokens go on`() async throws {
        let key = try await TestProvider.es256("a")
        try await run(key) { client, fixture in
            _ = try await fixture.log.createSpace(.shop)
            let expired = try provider.token(key, ["exp": provider.now - 3600])
            let response = try await client.with(token: expired).send(.get, "/v1/spaces/shop")
            let problem = try response.expectProblem(401, "not-authenticated")
            #expect(problem.detail == "The access token has expired" && response.headers[.wwwAuthenticate] == "Bearer")
            #expect(!String(decoding: response.bytes, as: UTF8.self).contains(expired.prefix(30)))
            let (own, _) = try await fixture.log.tokens.create(scope: .read)
            #expect(try await client.with(token: own).send(.get, "/v1/spaces/shop").status == .ok)
            try await client.with(token: "a.b.c").send(.get, "/v1/spaces/none").expectProblem(401, "not-authenticated")
        }
        // Without a provider it is an unknown token.
        let fixture = try RelayFixture(noAuthorization: false)
        let token = try provider.token(key)
        try await fixture.run { try await $0.with(token: token).send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated") }
    }

    @Test func `while the provider's keys are away agents are told to come back`() async throws {
        let key = try await TestProvider.es256("a")
        let token = try provider.token(key)
        try await run(key, PublishedKeys(nil)) { client, _ in
            let response = try await client.with(token: token).send(.get, "/v1/spaces/shop")
            try response.expectProblem(503, "unavailable")
            #expect(response.headers[.retryAfter] == "60")
        }
    }

    @Test func `replicas belong to the subject, through every token of it`() async throws {
        let key = try await TestProvider.es256("a")
        try await run(key) { client, fixture in
            let lineage = try await fixture.log.createSpace(.shop).lineage
            var replica = TestReplica(1)
            func push(_ claims: [String: Any]) async throws -> TestResponse {
                let batch = replica.batch(lineage, base: .zero, .writing(1))
                let response = try await client.with(token: try provider.token(key, claims)).push(batch.bytes)
                if response.status == .ok { replica.accept(batch) }
                return response
            }
            #expect(try await push([:]).status == .ok)
            #expect(try await push(["jti": "another", "exp": provider.now + 60]).status == .ok)
            try await push(["sub": "bob"]).expectProblem(403, "replica-owned-elsewhere")
            let (own, _) = try await fixture.log.tokens.create(scope: .admin)
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            try await client.with(token: own).push(batch.bytes).expectProblem(403, "replica-owned-elsewhere")
        }
    }

    @Test func `an event stream ends with its token, however busy the space`() async throws {
        let fixture = try RelayFixture()
        let space = try await fixture.log.createSpace(.shop)
        // Long before the heartbeat.
        let end = RelayClock.system.wall() + 200
        let quiet = HeadStream(
            log: fixture.log, space: .shop, lineage: space.lineage, head: .zero, seen: nil, heartbeat: .seconds(3600), expires: end
        ) { RelayClock.system.wall() < end }
        var writer: any ResponseBodyWriter = BodyCollector()
        try await quiet.write(to: &writer)
        #expect(RelayClock.system.wall() >= end)
        // A head that changes all the time does not extend the stream.
        var replica = TestReplica(1)
        _ = try await fixture.log.push(replica.batch(space.lineage, base: .zero, .writing(1)))
        let collector = BodyCollector()
        let busy = HeadStream(log: fixture.log, space: .shop, lineage: space.lineage, head: .zero, seen: .zero, heartbeat: .zero) {
            false
        }
        writer = collector
        try await busy.write(to: &writer)
        #expect(!String(decoding: collector.bytes, as: UTF8.self).contains("id: 1"))
    }

    @Test func `keys come from a file or an address, and a file must be there`() async throws {
        let key = try await TestProvider.eddsa("a")
        let json = try TestProvider.set([key])
        let directory = try TemporaryDirectory()
        let file = directory.path + "/jwks.json"
        var settings = WebTokenSettings(keys: file, issuer: TestProvider.issuer, audience: TestProvider.audience)
        await #expect { try await WebTokenVerifier.start(settings, logger: .silent) } throws: { error in
            guard let error = error as? AnnalsError else { return false }
            return error.code == .configuration && error.message.contains(file)
        }
        try Data(json).write(to: URL(fileURLWithPath: file))
        var fresh = provider
        fresh.now = RelayClock.system.wall() / 1000
        let token = try fresh.token(key)
        #expect(try await WebTokenVerifier.start(settings, logger: .silent).verify(token).subject == "ann")

        try await serving(json) { port in
            settings.keys = "http://127.0.0.1:\(port)/jwks.json"
            #expect(try await WebTokenVerifier.start(settings, logger: .silent).verify(token).subject == "ann")
            settings.keys = "http://127.0.0.1:\(port)/nowhere"
            let verifier = try await WebTokenVerifier.start(settings, logger: .silent)
            await #expect(throws: WebTokenRefusal.self) { try await verifier.verify(token) }
        }
    }

    /// A web server with one file.
    private func serving(_ json: [UInt8], _ body: (Int) async throws -> Void) async throws {
        let router = Router()
        router.get("jwks.json") { _, _ in Response(status: .ok, body: .init(byteBuffer: ByteBuffer(bytes: json))) }
        let (ports, announce) = AsyncStream<Int>.makeStream()
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { announce.yield($0.localAddress?.port ?? 0) }, logger: .silent)
        let group = ServiceGroup(configuration: .init(services: [application], logger: .silent))
        let task = Task { try await group.run() }
        var iterator = ports.makeAsyncIterator()
        let port = try #require(await iterator.next())
        do {
            try await body(port)
        } catch {
            await group.triggerGracefulShutdown()
            throw error
        }
        await group.triggerGracefulShutdown()
        try await task.value
    }

    @Test func `settings that cannot work are refused by name`() throws {
        var configuration = RelayConfiguration(storage: .directory("x"))
        let good = WebTokenSettings(keys: "keys.json", issuer: "i", audience: "a")
        configuration.webTokens = good
        try configuration.validate()
        let changes: [(WritableKeyPath<WebTokenSettings, String>, String)] = [
            (\.keys, "keys"), (\.issuer, "issuer"), (\.audience, "audience"), (\.claim, "claim"),
        ]
        for (path, word) in changes {
            var settings = good
            settings[keyPath: path] = ""
            configuration.webTokens = settings
            #expect { try configuration.validate() } throws: { ($0 as? AnnalsError)?.message.contains(word) == true }
        }
    }
}
