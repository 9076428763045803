import AnnalsCore
import AnnalsWire
import HTTPTypes
import RelayTestSupport
import Testing

@testable import Relay

/// Snapshots in parts, and the answers to parts that do not fit.
@Suite struct SnapshotPartsTests {
    private static let path = "/v1/spaces/shop/snapshot?position=0"

    private static func headers(_ all: [UInt8], _ range: String, part: [UInt8]) -> HTTPFields {
        var headers: HTTPFields = [.contentType: "application/vnd.annals.snapshot", .contentRange: range]
        if let name = HTTPField.Name("Annals-Digest") { headers[name] = Digest.sha256(all[...]).description }
        if let name = HTTPField.Name("Annals-Part-Digest") { headers[name] = Digest.sha256(part[...]).description }
        return headers
    }

    private static func offset(_ headers: HTTPFields) -> Int? {
        HTTPField.Name("Annals-Offset").flatMap { headers[$0] }.flatMap { Int($0) }
    }

    @Test func `parts follow one another, and the last one makes it the snapshot`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            let all = TestSnapshot.bytes((0..<1_000).map { _ in UInt8.random(in: 0 ... .max) })
            let count = all.count
            func send(_ range: Range<Int>, damaged: Bool = false) async throws -> (status: HTTPResponse.Status, offset: Int?) {
                let part = Array(all[range])
                var sent = part
                if damaged { sent[0] ^= 1 }
                let header = range.isEmpty ? "bytes */\(count)" : "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(count)"
                let response = try await client.send(.put, Self.path, headers: Self.headers(all, header, part: part), body: sent)
                return (response.status, Self.offset(response.headers))
            }
            #expect(try await send(0..<0) == (.accepted, 0))
            #expect(try await send(0..<400) == (.accepted, 400))
            #expect(try await send(0..<400) == (.rangeNotSatisfiable, 400), "it is here")
            #expect(try await send(500..<600) == (.rangeNotSatisfiable, 400), "something is missing before it")
            #expect(try await send(400..<700, damaged: true).status == .unprocessableContent)
            #expect(try await send(0..<0) == (.accepted, 400), "what was whole stays")
            #expect(try await send(400..<700) == (.accepted, 700))
            #expect(try await send(700..<count).status == .created)
            let snapshot = try await client.send(.get, "/v1/spaces/shop/snapshot")
            #expect(snapshot.bytes == all)
            for range in ["bytes", "bytes 5-2/10", "bytes 0-10/10", "bytes 0-1/*", "items 0-1/10", "bytes */0"] {
                let response = try await client.send(.put, Self.path, headers: Self.headers(all, range, part: []), body: [1])
                #expect(response.status == .badRequest, "\(range)")
            }
        }
    }

    @Test func `one that has no room in its space is refused with its first part, and a download of what went begins anew`() async throws {
        var limits = RelayLimits()
        limits.spaceBytes = 20_000
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            for number in 0..<3 {
                let batch = replica.batch(lineage, base: Position(Int64(number)), .writing(1), payload: [1])
                #expect(try await client.push(batch.bytes).status == .ok)
                replica.accept(batch)
            }
            let contents = [4_000, 8_000, 6_000, 6_000, 12_000].map { count in
                TestSnapshot.bytes((0..<count).map { _ in UInt8.random(in: 0 ... .max) })
            }
            for position in 0..<3 {
                #expect(try await client.upload(bytes: contents[position], position: Int64(position)).status == .created)
            }
            let path = "/v1/spaces/shop/snapshot?position=1"
            let old = try await client.send(.get, path)
            let tag = try #require(old.headers[.eTag])
            #expect(old.bytes == contents[1])
            // It needs the room of the second snapshot.
            #expect(try await client.upload(bytes: contents[3], position: 3).status == .created)
            let range: HTTPFields = [.range: "bytes=3000-", .ifRange: tag]
            let next = try await client.send(.get, path, headers: range)
            #expect(next.status == .ok && next.bytes == contents[0] && next.headers[.eTag] != tag)
            #expect(try await client.send(.get, "/v1/spaces/shop/snapshot?at=1", headers: range).status == .notFound)
            // The first and the newest snapshot stay, and there is no room for another one.
            let all = contents[4]
            let headers = Self.headers(all, "bytes 0-9/\(all.count)", part: Array(all[..<10]))
            try await client.send(.put, "/v1/spaces/shop/snapshot?position=3", headers: headers, body: Array(all[..<10]))
                .expectProblem(507, "space-full")
            #expect(try await client.send(.get, "/v1/spaces/shop/snapshot").bytes == contents[3])
        }
    }
}
