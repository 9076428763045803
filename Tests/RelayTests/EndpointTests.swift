import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// The answers of each address to correct requests.
@Suite struct EndpointTests {
    @Test func `a space is created once and described`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let response = try await client.send(.put, "/v1/spaces/shop")
            #expect(response.status == .created && response.headers[.location] == "/v1/spaces/shop")
            #expect(response.headers[.contentType] == "application/json")
            var created: SpaceDescription = try response.json()
            #expect(created.space == "shop" && created.head == .zero && created.time != nil)
            var described: SpaceDescription = try await client.send(.get, "/v1/spaces/shop").json()
            (created.time, described.time) = (nil, nil)
            #expect(described == created)
            let again = try await client.send(.put, "/v1/spaces/shop")
            try again.expectProblem(409, "space-exists")
            struct Body: Decodable { var space: SpaceDescription }
            var told = try again.json(Body.self).space
            told.time = nil
            #expect(told == created)
        }
    }

    @Test func `a push is answered in the answer's format, and pulled as a page`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1), .writing(2)).bytes
            let pushed = try await client.push(batch, headers: [.replicaName: "J%C3%BCrgens%20Kiosk%0A"])
            #expect(pushed.status == .ok && pushed.headers[.contentType] == "application/vnd.annals.answer")
            let answer = try PushAnswer.decode(pushed.bytes)
            #expect(answer.outcome == .accepted && answer.positions == [Position(1), Position(2)])

            let pulled = try await client.send(
                .get, "/v1/spaces/shop/entries?after=0",
                headers: [.lineage: lineage.description, .replica: TestReplica(2).id.description, .replicaName: "laptop"])
            #expect(pulled.status == .ok && pulled.headers[.contentType] == "application/vnd.annals.page")
            #expect(pulled.headers[.time].flatMap { Int64($0) } != nil)
            let page = try Page.decode(pulled.bytes)
            #expect(page.frames.map(\.batch) == [batch] && page.isLast && page.lineage == lineage)

            let replicas = try await fixture.log.replicas(of: .shop)
            #expect(replicas.map(\.name) == ["Jürgens Kiosk", "laptop"])
            #expect(replicas.map(\.counter) == [Counter(2), .zero])
        }
    }

    @Test func `a stale push is an answer, not an error`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var (one, two) = (TestReplica(1), TestReplica(2))
            _ = try await client.push(one.batch(lineage, base: .zero, .writing(1)).bytes)
            let response = try await client.push(two.batch(lineage, base: .zero, .writing(1)).bytes)
            #expect(response.status == .ok)
            let answer = try PushAnswer.decode(response.bytes)
            #expect(answer.outcome == .stale(at: Position(1)) && answer.page?.frames.count == 1)
        }
    }

    @Test func `a page's size can be asked for, and is cut to the limit`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            for _ in 0..<5 {
                let batch = replica.batch(lineage, base: .zero, .writing(1), payload: [UInt8](repeating: 7, count: 1000))
                _ = try await client.push(batch.bytes)
                replica.accept(batch)
            }
            for (limit, frames) in [("1", 1), ("3000", 2), ("9223372036854775807", 5)] {
                let page = try Page.decode(try await client.send(.get, "/v1/spaces/shop/entries?after=0&limit=\(limit)").bytes)
                #expect(page.frames.count == frames && page.isLast == (frames == 5))
            }
            let waited = try Page.decode(try await client.send(.get, "/v1/spaces/shop/entries?after=5&wait=0").bytes)
            #expect(waited.frames.isEmpty && waited.isLast)
        }
    }

    @Test func `a large page is sent in pieces, with its length announced`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            var sent: [[UInt8]] = []
            for size in [700_000, 10, RelayLimits.pagePieceBytes] {
                let payload = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
                let batch = replica.batch(lineage, base: .zero, .writing(1), payload: payload)
                _ = try await client.push(batch.bytes)
                replica.accept(batch)
                sent.append(batch.bytes)
            }
            let response = try await client.send(.get, "/v1/spaces/shop/entries?after=0&limit=4000000")
            #expect(response.headers[.contentLength] == nil || response.headers[.contentLength] == String(response.bytes.count))
            let page = try Page.decode(response.bytes)
            #expect(page.frames.map(\.batch) == sent && page.isLast)
            #expect(page.encode() == response.bytes)
        }
    }

    @Test func `a snapshot goes up and comes down whole and in parts`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            let content = TestSnapshot.bytes((0..<700_000).map { _ in UInt8.random(in: 0 ... .max) })
            let digest = Digest.sha256(content[...]).description
            let uploaded = try await client.upload(bytes: content, position: 0)
            #expect(uploaded.status == .created)
            let description: SpaceDescription = try uploaded.json()
            #expect(
                description.snapshot
                    == .init(position: .zero, bytes: Int64(content.count), digest: digest, logDigest: Digest.zero.description))

            let whole = try await client.send(.get, "/v1/spaces/shop/snapshot")
            #expect(whole.status == .ok && whole.bytes == content)
            #expect(whole.headers[.contentLength] == "\(content.count)" && whole.headers[.acceptRanges] == "bytes")
            #expect(whole.headers[.digest] == digest && whole.headers[.position] == "0" && whole.headers[.eTag] == "\"\(digest)\"")

            let head = try await client.send(.head, "/v1/spaces/shop/snapshot")
            #expect(head.status == .ok && head.headers[.contentLength] == "\(content.count)" && head.bytes.isEmpty)

            let part = try await client.send(
                .get, "/v1/spaces/shop/snapshot", headers: [.range: "bytes=300000-", .ifRange: "\"\(digest)\""])
            #expect(part.status == .partialContent && part.bytes == Array(content[300_000...]))
            #expect(part.headers[.contentRange] == "bytes 300000-\(content.count - 1)/\(content.count)")

            let changed = try await client.send(.get, "/v1/spaces/shop/snapshot", headers: [.range: "bytes=300000-", .ifRange: "\"old\""])
            #expect(changed.status == .ok && changed.bytes == content)
        }
    }

    @Test func `health needs no token`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        try await fixture.run { client in
            for path in [Endpoints.live, Endpoints.ready] {
                for method in [HTTPRequest.Method.get, .head] {
                    let response = try await client.send(method, path)
                    #expect(response.status == .ok)
                }
            }
        }
    }

    @Test func `a relay that stops is live and not ready`() async throws {
        let fixture = try RelayFixture()
        await fixture.log.close()
        try await fixture.run { client in
            #expect(try await client.send(.get, Endpoints.live).status == .ok)
            let response = try await client.send(.get, Endpoints.ready)
            try response.expectProblem(503, "unavailable")
            #expect(response.headers[.retryAfter] != nil)
        }
    }
}
