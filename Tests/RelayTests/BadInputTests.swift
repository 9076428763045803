import AnnalsCore
import AnnalsWire
import HTTPTypes
import Hummingbird
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// Wrong requests to every address: problem details with a stable code, and no effect.
@Suite struct BadInputTests {
    @Test func `addresses that do not exist`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            for path in ["/", "/v1", "/v1/admin", "/v2/spaces/shop", "/v1/spaces/shop/nothing", "/v1/spaces/shop/push/more", "/health"] {
                try await client.send(.get, path).expectProblem(404, "not-found")
            }
        }
    }

    @Test(arguments: [
        ("/health/live", "GET, HEAD"), ("/health/ready", "GET, HEAD"), ("/v1/spaces/shop", "GET, PUT, DELETE, HEAD"),
        ("/v1/spaces/shop/push", "POST"), ("/v1/spaces/shop/entries", "GET, HEAD"), ("/v1/spaces/shop/events", "GET, HEAD"),
        ("/v1/spaces/shop/snapshot", "GET, PUT, HEAD"),
    ])
    func `methods that an address does not know`(path: String, allowed: String) async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            for method in [HTTPRequest.Method.delete, .patch, .options, .trace] where !allowed.contains(method.rawValue) {
                let response = try await client.send(method, path)
                try response.expectProblem(405, "method-not-allowed")
                #expect(response.headers[.allow] == allowed)
            }
        }
    }

    @Test func `names that no space can have`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            for name in ["a%20b", "%2e%2e", "caf%C3%A9", String(repeating: "x", count: 65), "a+b", "a:b"] {
                for (method, path) in [
                    (HTTPRequest.Method.put, ""), (.get, ""), (.post, "/push"), (.get, "/entries?after=0"), (.get, "/events"),
                ] {
                    try await client.send(method, "/v1/spaces/\(name)\(path)").expectProblem(400, "bad-request")
                }
            }
            #expect(try await fixture.log.spaces().isEmpty)
        }
    }

    @Test func `a space that does not exist`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            var replica = TestReplica(1)
            try await client.push(replica.batch(.random(), base: .zero, .writing(1)).bytes).expectProblem(404, "space-not-found")
            try await client.upload([1], position: 0).expectProblem(404, "space-not-found")
            for path in ["", "/entries?after=0", "/events", "/snapshot"] {
                try await client.send(.get, "/v1/spaces/shop" + path).expectProblem(404, "space-not-found")
            }
        }
    }

    @Test func `pushes of another type`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1)).bytes
            for type in ["application/json", "text/plain", "", "application/vnd.annals.page"] {
                let response = try await client.send(.post, "/v1/spaces/shop/push", headers: [.contentType: type], body: batch)
                try response.expectProblem(415, "unsupported-media-type")
            }
            try await client.send(.post, "/v1/spaces/shop/push", body: batch).expectProblem(415, "unsupported-media-type")
            let parameter = "Application/vnd.annals.batch ; version=1"
            #expect(try await client.send(.post, "/v1/spaces/shop/push", headers: [.contentType: parameter], body: batch).status == .ok)
        }
    }

    @Test func `batches that are damaged, cut off, of another kind or newer`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let good = replica.batch(lineage, base: .zero, .writing(1)).bytes
            for bad in [[], Array("<html>".utf8), Array(good.dropLast()), good + [0], Array(good.prefix(20))] {
                try await client.push(bad).expectProblem(422, "corrupt-batch")
            }
            for index in stride(from: 5, to: good.count, by: 7) {
                var bad = good
                bad[index] ^= 0x10
                try await client.push(bad).expectProblem(422, "corrupt-batch")
            }
            var newer = good
            newer[4] = 3
            try await client.push(newer).expectProblem(422, "newer-format")
            var parts = replica.batch(lineage, base: .zero, .writing(1))
            (parts.partNumber, parts.partCount) = (2, 2)
            try await client.push(parts.bytes).expectProblem(422, "corrupt-batch")
            #expect(try await fixture.log.describe(.shop).head == .zero)
        }
    }

    @Test func `bodies beyond the limit`() async throws {
        var limits = RelayLimits()
        limits.batch.batchBytes = 1000
        limits.batch.transactions = 3
        limits.log.snapshotBytes = 1000
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            let large = replica.batch(lineage, base: .zero, .writing(1), payload: [UInt8](repeating: 0, count: 2000)).bytes
            try await client.push(large).expectProblem(413, "too-large")
            let many = replica.batch(lineage, base: .zero, .writing(1), .writing(2), .writing(3), .writing(4)).bytes
            try await client.push(many).expectProblem(413, "too-large")
            try await client.upload(bytes: [UInt8](repeating: 0, count: 1001), position: 0).expectProblem(413, "too-large")
            #expect(try await fixture.log.describe(.shop).head == .zero)
            #expect(try TestStorage.database(fixture.directory.path).snapshots.names().isEmpty)
        }
    }

    @Test func `pushes beyond what may be received at once`() async throws {
        let reader = BodyReader(budget: 100)
        func request(_ count: Int) -> Request {
            Request(
                head: .init(method: .post, scheme: nil, authority: nil, path: "/"),
                body: .init(buffer: ByteBuffer(repeating: 0, count: count)))
        }
        let first = request(90)
        try await reader.withBody(of: first, limit: 1000) { bytes in
            #expect(bytes.count == 90)
            await #expect { try await reader.withBody(of: request(20), limit: 1000) { _ in } } throws: {
                ($0 as? RelayLogError).map { ProblemResponse($0).problem.status } == 503
            }
        }
        // A single request always fits, and failed requests released their share.
        try await reader.withBody(of: request(500), limit: 1000) { #expect($0.count == 500) }
        try await reader.withBody(of: request(90), limit: 1000) { #expect($0.count == 90) }
    }

    @Test func `positions, sizes and times that are not numbers`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            for query in [
                "", "?after=", "?after=x", "?after=-1", "?after=1.5", "?after=+1", "?after=99999999999999999999", "?after=0&limit=-1",
                "?after=0&limit=much", "?after=0&wait=soon", "?after=0&wait=-5",
            ] {
                try await client.send(.get, "/v1/spaces/shop/entries\(query)").expectProblem(400, "bad-request")
            }
        }
    }

    @Test func `what was seen of the log that is no position and digest, with a lineage or without`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage.description
            for text in ["", "0", "x-\(Digest.zero)", "0-\(Digest.zero)0"] {
                for headers in [[.seen: text], [.seen: text, .lineage: lineage]] as [HTTPFields] {
                    try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: headers).expectProblem(400, "bad-request")
                }
            }
            let whole: HTTPFields = [.seen: "7-\(Digest.zero)"]
            #expect(try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: whole).status == .ok)
        }
    }

    @Test func `a position beyond the head, and another lineage`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            try await client.send(.get, "/v1/spaces/shop/entries?after=1").expectProblem(409, "log-rolled-back")
            let own: HTTPFields = [.lineage: try await fixture.log.describe(.shop).lineage.description]
            try await client.send(.get, "/v1/spaces/shop/entries?after=1", headers: own).expectProblem(409, "log-rolled-back")
            let other: HTTPFields = [.lineage: Lineage.random().description]
            for path in ["/entries?after=0", "/events", "/snapshot"] {
                try await client.send(.get, "/v1/spaces/shop" + path, headers: other).expectProblem(409, "log-rolled-back")
            }
        }
    }

    @Test func `what the log refuses, and what storage fails at, each with its status`() {
        let expected: [(RelayLogError, Int, String)] = [
            (.expired(horizon: Position(5)), 410, "expired"), (.diskFull, 507, "storage-full"), (.storage("secret"), 500, "defect"),
            (.overloaded(retryAfterSeconds: 3), 503, "unavailable"), (.databaseAway("secret"), 503, "unavailable"),
            (.closing, 503, "unavailable"),
        ]
        for (error, status, code) in expected {
            let response = ProblemResponse(error)
            #expect(response.problem.status == status && response.problem.code == code)
            #expect(response.headers[.retryAfter] != nil || status != 503)
            #expect(response.problem.detail?.contains("secret") != true)
        }
    }

    @Test func `headers that are not identities`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            for name in [HTTPField.Name.lineage, .replica] {
                try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: [name: "me"]).expectProblem(400, "bad-request")
            }
        }
    }

    @Test func `snapshots with a wrong position, digest, type or none`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            try await client.send(.get, "/v1/spaces/shop/snapshot").expectProblem(404, "no-snapshot")
            try await client.upload([1, 2, 3], position: 1).expectProblem(409, "log-rolled-back")
            try await client.upload([1, 2, 3], position: 0, digest: .zero).expectProblem(422, "bad-digest")
            let path = "/v1/spaces/shop/snapshot"
            let type = Endpoints.MediaType.snapshot
            let digest = Digest.sha256([1]).description
            let wrong: [(String, HTTPFields, Int, String)] = [
                (path, [.contentType: type, .digest: digest], 400, "bad-request"),
                (path + "?position=-1", [.contentType: type, .digest: digest], 400, "bad-request"),
                (path + "?position=0", [.contentType: type], 400, "bad-request"),
                (path + "?position=0", [.contentType: type, .digest: "abc"], 400, "bad-request"),
                (path + "?position=0", [.contentType: type, .digest: String(digest.dropLast(2))], 400, "bad-request"),
                (path + "?position=0", [.digest: digest], 415, "unsupported-media-type"),
            ]
            for (path, headers, status, code) in wrong {
                try await client.send(.put, path, headers: headers, body: [1]).expectProblem(status, code)
            }
            #expect(try TestStorage.database(fixture.directory.path).snapshots.names().isEmpty)
        }
    }

    @Test func `a snapshot older than the one there, and a range beyond its end`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            _ = try await client.push(replica.batch(lineage, base: .zero, .writing(1)).bytes)
            #expect(try await client.upload([1, 2, 3], position: 1).status == .created)
            try await client.upload([1], position: 0).expectProblem(409, "snapshot-superseded")
            let count = TestSnapshot.bytes([1, 2, 3]).count
            let response = try await client.send(.get, "/v1/spaces/shop/snapshot", headers: [.range: "bytes=\(count)-"])
            try response.expectProblem(416, "range-not-satisfiable")
            #expect(response.headers[.contentRange] == "bytes */\(count)")
        }
    }

    @Test func `too many watchers`() async throws {
        var limits = RelayLimits()
        limits.log.waiters = 0
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            _ = try await client.create()
            for path in ["/events", "/entries?after=0&wait=1"] {
                let response = try await client.send(.get, "/v1/spaces/shop" + path)
                try response.expectProblem(503, "unavailable")
                #expect(response.headers[.retryAfter] != nil)
            }
        }
    }

    @Test func `a relay that stops takes nothing`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            await fixture.log.close()
            var replica = TestReplica(1)
            let response = try await client.push(replica.batch(lineage, base: .zero, .writing(1)).bytes)
            try response.expectProblem(503, "unavailable")
        }
    }

    @Test(arguments: [
        (nil, ByteRange.whole), ("bytes=0-0", .part(0..<1)), ("bytes=2-5", .part(2..<6)), ("bytes=2-", .part(2..<10)),
        ("bytes=-3", .part(7..<10)), ("bytes=-99", .part(0..<10)), ("bytes=5-99", .part(5..<10)), ("bytes=10-", .notSatisfiable),
        ("bytes=10-12", .notSatisfiable), ("bytes=-0", .notSatisfiable), ("bytes=5-2", .whole), ("bytes=-", .whole), ("bytes=a-b", .whole),
        ("bytes=1-2,4-5", .whole), ("rows=1-2", .whole), ("bytes=99999999999999999999-", .whole), ("bytes=12-11", .whole),
    ])
    func `ranges`(header: String?, expected: ByteRange) {
        #expect(ByteRange(header: header, byteCount: 10) == expected)
    }
}
