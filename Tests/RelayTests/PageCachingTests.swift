import AnnalsCore
import AnnalsWire
import HTTPTypes
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// What HTTP caches are told about pages, and what a sender of If-None-Match gets.
@Suite struct PageCachingTests {
    let clock = TestClock()
    let fixture: RelayFixture
    let lineage: Lineage
    let reader: String
    let writer: String
    let other: String

    init() async throws {
        fixture = try RelayFixture(noAuthorization: false, clock: clock.clock)
        lineage = try await fixture.log.createSpace(.shop).lineage
        reader = try await fixture.log.tokens.create(space: .shop, scope: .read).secret
        writer = try await fixture.log.tokens.create(space: .shop, scope: .write).secret
        other = try await fixture.log.tokens.create(space: SpaceName("other"), scope: .read).secret
    }

    private func path(after: Int64, limit: Int = 1, wait: Int? = nil) -> String {
        "/v1/spaces/shop/entries?after=\(after)&limit=\(limit)" + (wait.map { "&wait=\($0)" } ?? "")
    }

    /// Appends transactions, each in a batch of its own, by a replica that has acknowledged all earlier ones.
    private func append(_ count: Int, by author: inout TestReplica) async throws {
        for _ in 0..<count {
            let head = try await fixture.log.describe(.shop).head
            let batch = author.batch(lineage, base: head, .writing(UInt64(head.rawValue)))
            #expect(try await fixture.log.push(batch).outcome == .accepted)
            author.accept(batch)
        }
    }

    private func expectUncacheable(_ response: TestResponse, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(response.headers[.cacheControl] == "no-store", sourceLocation: sourceLocation)
        #expect(response.headers[.eTag] == nil && response.headers[.vary] == nil, sourceLocation: sourceLocation)
    }

    @Test func `a full page has a tag that stays, also when the log grows and at another relay of the storage`() async throws {
        var author = TestReplica(1)
        try await append(3, by: &author)
        try await fixture.run { client in
            let client = client.with(token: reader)
            let first = try await client.send(.get, path(after: 1))
            #expect(first.status == .ok && first.headers[.cacheControl] == "private, max-age=86400, immutable")
            #expect(first.headers[.vary] == "Authorization, Annals-Lineage, Annals-Seen")
            let tag = try #require(first.headers[.eTag])
            #expect(tag.hasPrefix("W/\"") && tag.hasSuffix("\"") && tag.count == 68)
            try await append(2, by: &author)
            let later = try await client.send(.get, path(after: 1))
            #expect(later.headers[.eTag] == tag)
            // Only the head differs.
            let (old, new) = (try Page.decode(first.bytes), try Page.decode(later.bytes))
            #expect(old.frames == new.frames && old.head == Position(3) && new.head == Position(5))
            await fixture.log.close()
            let log = try TestStorage.log(fixture.directory.path, clock: clock.clock)
            let second = RelayClient(responder: Routes.responder(log: log, configuration: fixture.configuration))
            #expect(try await second.with(token: writer).send(.get, path(after: 1)).headers[.eTag] == tag)
            await log.close()
        }
    }

    @Test func `other requests and other content have other tags`() async throws {
        var author = TestReplica(1)
        try await append(6, by: &author)
        try await fixture.run { client in
            func tag(_ path: String) async throws -> String? {
                try await client.with(token: reader).send(.get, path).headers[.eTag]
            }
            let size = try await fixture.log.pull(from: .shop, after: .zero).frames[0].batch.count
            let tags = [
                try await tag(path(after: 1)), try await tag(path(after: 2)), try await tag(path(after: 1, limit: 2 * size)),
                try await tag(path(after: 1, limit: 3 * size)),
            ]
            #expect(tags.allSatisfy { $0 != nil } && Set(tags).count == 4)
            // Two limits that cut at the same place give the same page.
            #expect(try await tag(path(after: 1, limit: 2 * size + 1)) == tags[2])
            _ = try await fixture.log.void(Position(3), of: .shop, withLater: true)
            #expect(try await tag(path(after: 1)) == tags[0])
            #expect(try await tag(path(after: 2)) != tags[1])
            #expect(try await tag(path(after: 1, limit: 2 * size)) != tags[2])
        }
    }

    @Test func `a page that ends at the head, an empty one and a problem are kept nowhere`() async throws {
        var author = TestReplica(1)
        try await append(2, by: &author)
        try await fixture.run { client in
            let client = client.with(token: reader)
            for after: Int64 in [1, 2] {
                expectUncacheable(try await client.send(.get, path(after: after)))
                expectUncacheable(try await client.send(.head, path(after: after)))
            }
            let lost = try await client.send(.get, path(after: 3))
            expectUncacheable(lost)
            #expect(lost.status != .ok)
            #expect(try await client.send(.head, path(after: 3)).status == lost.status)
        }
    }

    @Test func `who has a full page gets 304, and this acknowledges what a pull does`() async throws {
        var (author, puller) = (TestReplica(1), TestReplica(2))
        try await append(3, by: &author)
        try await fixture.run { client in
            let client = client.with(token: writer)
            let tag = try #require(try await client.send(.get, path(after: 1)).headers[.eTag])
            let headers: HTTPFields = [.ifNoneMatch: tag, .replica: puller.id.description]
            for method in [HTTPRequest.Method.get, .head] {
                let response = try await client.send(method, path(after: 1), headers: headers)
                #expect(response.status == .notModified && response.bytes.isEmpty)
                #expect(response.headers[.eTag] == tag && response.headers[.cacheControl] == "private, max-age=86400, immutable")
                #expect(response.headers[.vary] != nil && response.headers[.time] != nil)
            }
            let known = try await fixture.log.replicas(of: .shop).first { $0.replica == puller.id }
            #expect(known?.position == Position(1))
            #expect(try await client.send(.get, path(after: 0), headers: headers).status == .ok)
            // Only the pages with bytes count.
            let metrics = try await fixture.log.tokens.create(scope: .admin).secret
            let text = String(decoding: try await client.with(token: metrics).send(.get, Endpoints.metrics).bytes, as: UTF8.self)
            #expect(text.contains("annals_relay_pulled_pages_total 2\n"))
        }
    }

    @Test func `a condition does not replace a check`() async throws {
        var author = TestReplica(1)
        try await append(4, by: &author)
        let revoked = try await fixture.log.tokens.create(space: .shop, scope: .read)
        _ = try await fixture.log.tokens.revoke(revoked.record.id)
        try await fixture.run { client in
            let tag = try #require(try await client.with(token: reader).send(.get, path(after: 1)).headers[.eTag])
            func status(
                _ token: String?, _ method: HTTPRequest.Method, _ path: String, _ more: HTTPFields = [:]
            ) async throws -> [Int] {
                var headers = more
                headers[.ifNoneMatch] = tag
                let (plain, conditional) = (
                    try await client.with(token: token).send(method, path, headers: more),
                    try await client.with(token: token).send(method, path, headers: headers)
                )
                return [plain.status.code, conditional.status.code]
            }
            let foreign: HTTPFields = [.lineage: Lineage.random().description]
            let rolledBack: HTTPFields = [.lineage: lineage.description, .seen: "2-\(Digest.test(99))"]
            for method in [HTTPRequest.Method.get, .head] {
                #expect(try await status(nil, method, path(after: 1)) == [401, 401])
                #expect(try await status(revoked.secret, method, path(after: 1)) == [401, 401])
                #expect(try await status(other, method, path(after: 1)) == [403, 403])
                #expect(try await status(reader, method, path(after: 1), foreign) == [409, 409])
                #expect(try await status(reader, method, path(after: 1), rolledBack) == [409, 409])
            }
            #expect(try await client.with(token: writer).upload([1], position: 3).status == .created)
            clock.advance(milliseconds: 10_000)
            var rules = PurgeRules()
            (rules.keep, rules.isForced) = (0, true)
            #expect(try await fixture.log.purge(.shop, rules).horizon == Position(3))
            for method in [HTTPRequest.Method.get, .head] {
                #expect(try await status(reader, method, path(after: 1)) == [410, 410])
            }
        }
    }

    @Test func `HEAD has the status and the headers of the page, and does not wait`() async throws {
        var (author, puller) = (TestReplica(1), TestReplica(2))
        try await append(3, by: &author)
        try await fixture.run { client in
            let client = client.with(token: writer)
            for after: Int64 in [0, 1, 2, 3] {
                var (page, head) = (
                    try await client.send(.get, path(after: after)), try await client.send(.head, path(after: after, wait: 60))
                )
                #expect(head.status == .ok && head.bytes.isEmpty && head.headers[.contentLength] == String(page.bytes.count))
                for name in [HTTPField.Name.requestID, .contentLength] { (page.headers[name], head.headers[name]) = (nil, nil) }
                #expect(head.headers == page.headers)
            }
            let headers: HTTPFields = [.replica: puller.id.description]
            #expect(try await client.send(.head, path(after: 2), headers: headers).status == .ok)
            #expect(try await fixture.log.replicas(of: .shop).first { $0.replica == puller.id }?.position == Position(2))
            // A page that was not sent does not count, and a request for a snapshot goes with a page only.
            #expect(try await client.send(.head, path(after: 3), headers: headers).headers[.snapshot] == nil)
        }
    }

    @Test(arguments: [
        ("*", true, true), (" * ", true, true), ("\"a\"", true, false), ("W/\"a\"", true, false), ("\"b\"", false, false),
        ("\"b\", W/\"a\"", true, false), (" , \"b\",,\t\"a\" ,", true, false), ("\"b,\"a\"", false, false), ("\"b,c\", \"a\"", true, false),
        ("a", false, false), ("", false, false), ("\"a", false, false), ("w/\"a\"", false, false), ("*, \"b\"", false, false),
        ("\"b\" \"a\"", false, false), ("\"\"", false, false),
    ])
    func `a condition is read as RFC 9110 says`(header: String, holds: Bool, holdsWithoutTag: Bool) {
        #expect(IfNoneMatch(header).holds("W/\"a\"") == holds)
        #expect(IfNoneMatch(header).holds("\"a\"") == holds)
        #expect(IfNoneMatch(header).holds(nil) == holdsWithoutTag)
    }
}
