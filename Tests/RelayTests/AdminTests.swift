import AnnalsCore
import AnnalsWire
import Foundation
import HTTPTypes
import Hummingbird
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// The operations of operators over HTTP, and their permissions.
@Suite struct AdminTests {
    struct Tokens: Decodable {
        var tokens: [Token]
    }

    struct Token: Decodable {
        var id: Int64
        var space: String?
        var token: String?
    }

    struct Replicas: Decodable {
        var replicas: [Replica]
    }

    struct Replica: Decodable {
        var replica: ReplicaID
        var name: String
        var program: String
        var lag: Int64
        var retired: Int64?
        var owner: String?
    }

    static let unknownReplica = ReplicaID(high: 1, low: 2)

    /// All requests that need the scope admin.
    static let requests: [(HTTPRequest.Method, String, String?)] = [
        (.get, "/v1/spaces", nil), (.get, "/v1/spaces/shop/replicas", nil),
        (.post, "/v1/spaces/shop/replicas/\(unknownReplica)/retire", nil),
        (.post, "/v1/spaces/shop/replicas/\(unknownReplica)/release", nil), (.get, "/v1/spaces/shop/pushes", nil),
        (.post, "/v1/spaces/shop/purge", "{}"), (.get, "/v1/admin/access", nil), (.get, "/v1/admin/tokens", nil),
        (.post, "/v1/admin/tokens", #"{"scope":"admin"}"#), (.delete, "/v1/admin/tokens/1", nil), (.get, "/v1/admin/audit", nil),
    ]

    @Test func `nothing of it without a token that administers`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let (write, _) = try await fixture.log.tokens.create(scope: .write)
        let (elsewhere, _) = try await fixture.log.tokens.create(space: .other, scope: .admin)
        try await fixture.run { client in
            for (method, path, body) in Self.requests {
                try await client.sendJSON(method, path, body).expectProblem(401, "not-authenticated")
                try await client.with(token: write).sendJSON(method, path, body).expectProblem(403, "not-permitted")
                guard path.hasPrefix("/v1/spaces/shop") else { continue }
                // The answer is the same as for a space that does not exist.
                let one = try await client.with(token: elsewhere).sendJSON(method, path, body).expectProblem(403, "not-permitted")
                let absent = try await client.with(token: elsewhere).sendJSON(method, path.replacing("shop", with: "none"), body)
                var other = try absent.expectProblem(403, "not-permitted")
                other.detail = other.detail?.replacing("none", with: "shop")
                #expect(one == other)
            }
        }
        #expect(try await fixture.log.audit(limit: 10).isEmpty)
        #expect(try await fixture.log.tokens.list().count == 2)
    }

    @Test func `who administers one space sees and does what concerns that one`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        for name in [SpaceName.shop, .other] { _ = try await fixture.log.createSpace(name) }
        let (secret, own) = try await fixture.log.tokens.create(space: .shop, scope: .admin, by: .commandLine(user: "ann"))
        let (_, all) = try await fixture.log.tokens.create(scope: .read, by: .commandLine(user: "ann"))
        try await fixture.run { client in
            let client = client.with(token: secret)
            struct Spaces: Decodable {
                struct Space: Decodable { var space: String }
                var spaces: [Space]
            }
            let spaces: Spaces = try await client.send(.get, "/v1/spaces").json()
            #expect(spaces.spaces.map(\.space) == ["shop"])
            for (query, found) in [("space=shop", 1), ("space=other", 0), ("space=none", 0), ("after=shop", 0), ("after=s", 1)] {
                #expect(try await client.send(.get, "/v1/spaces?\(query)").json(Spaces.self).spaces.count == found)
            }
            let tokens: Tokens = try await client.send(.get, "/v1/admin/tokens").json()
            #expect(tokens.tokens.map(\.id) == [own.id] && tokens.tokens[0].token == nil)
            for body in [#"{"scope":"read"}"#, #"{"scope":"read","space":"other"}"#] {
                try await client.sendJSON(.post, "/v1/admin/tokens", body).expectProblem(403, "not-permitted")
            }
            try await client.send(.delete, "/v1/admin/tokens/\(all.id)").expectProblem(404, "not-found")
            let made = try await client.sendJSON(.post, "/v1/admin/tokens", #"{"scope":"read","space":"shop","lifetimeSeconds":60}"#)
            #expect(made.status == .created && made.headers[.cacheControl] == "no-store")
            let token: Token = try made.json()
            #expect(made.headers[.location] == "/v1/admin/tokens/\(token.id)" && token.space == "shop")
            #expect(try await client.with(token: token.token).send(.get, "/v1/spaces/shop").status == .ok)
            #expect(try await client.send(.delete, "/v1/admin/tokens/\(token.id)").status == .noContent)
            try await client.with(token: token.token).send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
            let audit = try await client.send(.get, "/v1/admin/audit")
            let others = try await client.send(.get, "/v1/admin/audit?space=other")
            #expect(String(decoding: others.bytes, as: UTF8.self).hasPrefix("{\"lines\":[],"))
            struct Lines: Decodable {
                struct Line: Decodable {
                    var actor: String
                    var action: String
                    var space: String?
                }
                var lines: [Line]
            }
            let lines: Lines = try audit.json()
            #expect(lines.lines.allSatisfy { $0.space == "shop" } && lines.lines.count == 4)
            #expect(lines.lines.first?.actor == "token 1" && lines.lines.last?.actor == "cli (ann)")
            #expect(!String(decoding: audit.bytes, as: UTF8.self).contains("ann_"))
        }
    }

    @Test func `a replica is listed with its lag and program, and retired`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            _ = try await client.push(replica.batch(lineage, base: .zero, .writing(1), .writing(2)).bytes, headers: [.replicaName: "till"])
            let reader = TestReplica(2).id
            _ = try await client.send(
                .get, "/v1/spaces/shop/entries?after=1",
                headers: [.replica: reader.description, .replicaName: "laptop", .userAgent: "annals/7.0.0"])
            let list = "/v1/spaces/shop/replicas"
            let replicas = try await client.send(.get, list).json(Replicas.self).replicas
            #expect(replicas.map(\.name) == ["till", "laptop"] && replicas.map(\.lag) == [0, 1])
            #expect(replicas.map(\.program) == ["", "annals/7.0.0"] && replicas.allSatisfy { $0.retired == nil })
            #expect(try await client.send(.post, "/v1/spaces/shop/replicas/\(reader)/retire").status == .noContent)
            let later = try await client.send(.get, list).json(Replicas.self).replicas
            #expect(later.map { $0.retired != nil } == [false, true])
            try await client.send(.post, "/v1/spaces/shop/replicas/\(Self.unknownReplica)/retire").expectProblem(404, "not-found")
            try await client.send(.post, "/v1/spaces/none/replicas/\(reader)/retire").expectProblem(404, "space-not-found")
            try await client.send(.post, "/v1/spaces/shop/replicas/nobody/retire").expectProblem(400, "bad-request")
        }
    }

    @Test func `a member retires the replicas of its own token, and no others`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let (write, _) = try await fixture.log.tokens.create(scope: .write)
        let (other, _) = try await fixture.log.tokens.create(scope: .write)
        let (reading, _) = try await fixture.log.tokens.create(scope: .read)
        try await fixture.run { client in
            let lineage = try await fixture.log.describe(.shop).lineage
            var replica = TestReplica(1)
            _ = try await client.with(token: write).push(replica.batch(lineage, base: .zero, .writing(1)).bytes)
            let reader = TestReplica(2).id
            _ = try await client.with(token: reading).send(
                .get, "/v1/spaces/shop/entries?after=1", headers: [.replica: reader.description])
            func retire(_ id: ReplicaID) -> String { "/v1/spaces/shop/replicas/\(id)/retire" }
            for token in [other, reading] {
                try await client.with(token: token).send(.post, retire(replica.id)).expectProblem(403, "not-permitted")
            }
            try await client.with(token: write).send(.post, retire(reader)).expectProblem(403, "not-permitted")
            #expect(try await fixture.log.replicas(of: .shop).allSatisfy { !$0.isRetired })
            #expect(try await client.with(token: write).send(.post, retire(replica.id)).status == .noContent)
            #expect(try await client.with(token: reading).send(.post, retire(reader)).status == .noContent)
            #expect(try await fixture.log.replicas(of: .shop).allSatisfy(\.isRetired))
        }
    }

    @Test func `a replica is released, and belongs to the owner that pushes as it next`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        let lineage = try await fixture.log.createSpace(.shop).lineage
        let tokens = fixture.log.tokens
        let (boss, admin) = try await tokens.create(label: "boss", space: .shop, scope: .admin)
        let (old, _) = try await tokens.create(space: .shop, scope: .write)
        let (new, record) = try await tokens.create(space: .shop, scope: .write)
        try await fixture.run { client in
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            #expect(try await client.with(token: old).push(batch.bytes, headers: [.replicaName: "till"]).status == .ok)
            replica.accept(batch)
            let next = replica.batch(lineage, base: .zero, .writing(2)).bytes
            try await client.with(token: new).push(next).expectProblem(403, "replica-owned-elsewhere")
            let operators = client.with(token: boss)
            let list = "/v1/spaces/shop/replicas"
            #expect(try await operators.send(.get, list).json(Replicas.self).replicas.map(\.owner) == ["token 2"])
            #expect(try await operators.send(.post, "\(list)/\(replica.id)/release").status == .noContent)
            #expect(try await operators.send(.get, list).json(Replicas.self).replicas.map(\.owner) == [nil])
            #expect(try await client.with(token: new).push(next).status == .ok)
            #expect(try await operators.send(.get, list).json(Replicas.self).replicas.map(\.owner) == ["token \(record.id)"])
            try await operators.send(.post, "\(list)/\(Self.unknownReplica)/release").expectProblem(404, "not-found")
        }
        let lines = try await fixture.log.audit(limit: 9)
        #expect(
            lines.map(\.action) == ["replica-release", "replica-release"] && lines.allSatisfy { $0.actor == "token \(admin.id) (boss)" })
        #expect(lines.map(\.outcome) == ["no such replica", "done"] && lines[1].subject == "\(TestReplica(1).id) (till)")
    }

    @Test func `a purge says first what would go`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var replica = TestReplica(1)
            _ = try await client.push(replica.batch(lineage, base: .zero, .writing(1), .writing(2)).bytes)
            _ = try await client.upload([1, 2, 3], position: 2)
            struct Purge: Decodable {
                var dryRun: Bool
                var positions: Int64
                var bytes: Int64
                var horizon: Int64
                var newestSnapshot: Int64?
            }
            let force = #"{"dryRun":true,"force":true}"#
            let plan: Purge = try await client.sendJSON(.post, "/v1/spaces/shop/purge", force).json()
            #expect(plan.dryRun && plan.positions == 2 && plan.horizon == 2 && plan.bytes > 0 && plan.newestSnapshot == 2)
            #expect(try await client.send(.get, "/v1/spaces/shop").json(SpaceDescription.self).horizon == .zero)
            let kept: Purge = try await client.sendJSON(.post, "/v1/spaces/shop/purge", #"{"keepSeconds":3600}"#).json()
            #expect(kept.positions == 0 && kept.bytes == 0)
            let done: Purge = try await client.sendJSON(.post, "/v1/spaces/shop/purge", force.replacing("true,", with: "false,")).json()
            #expect(!done.dryRun && done.positions == 2)
            #expect(try await client.send(.get, "/v1/spaces/shop").json(SpaceDescription.self).horizon == Position(2))
        }
    }

    @Test(arguments: [
        ("/v1/spaces/shop/purge", #"{"dry_run":true}"#), ("/v1/spaces/shop/purge", #"{"keepSeconds":-1}"#),
        ("/v1/spaces/shop/purge", #"{"keepSeconds":99999999999}"#), ("/v1/spaces/shop/purge", #"{"force":"yes"}"#),
        ("/v1/spaces/shop/purge", "[]"), ("/v1/spaces/shop/purge", ""), ("/v1/spaces/shop/purge", "{"),
        ("/v1/admin/tokens", "{}"), ("/v1/admin/tokens", #"{"scope":"emperor"}"#), ("/v1/admin/tokens", #"{"scope":"read","space":"a/b"}"#),
        ("/v1/admin/tokens", #"{"scope":"read","lifetimeSeconds":0}"#), ("/v1/admin/tokens", #"{"scope":"read","label":"a\u0000b"}"#),
        ("/v1/admin/tokens", #"{"scope":"admin","space":null}"#), ("/v1/admin/tokens", #"{"scope":"read","label":7}"#),
        ("/v1/admin/tokens", #"{"scope":"read","extra":1}"#),
        ("/v1/admin/tokens", #"{"scope":"read","label":""# + String(repeating: "a", count: 129) + #""}"#),
    ])
    func `a body that is not what it must be is refused, and does nothing`(path: String, body: String) async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            try await client.sendJSON(.post, path, body).expectProblem(400, "bad-request")
            try await client.send(.post, path, body: Array(body.utf8)).expectProblem(415, "unsupported-media-type")
        }
        #expect(try await fixture.log.audit(limit: 1).isEmpty)
    }

    @Test func `a large body is refused, and so are numbers that are none`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            _ = try await client.create()
            let large = #"{"label":""# + String(repeating: "a", count: AdminLimits.bodyBytes) + #""}"#
            try await client.sendJSON(.post, "/v1/admin/tokens", large).expectProblem(413, "too-large")
            for path in [
                "/v1/spaces?limit=x", "/v1/spaces?after=a%2Fb", "/v1/spaces/shop/pushes?before=-1", "/v1/admin/audit?before=1.5",
            ] {
                try await client.send(.get, path).expectProblem(400, "bad-request")
            }
            for id in ["0", "-1", "x", "99999999999999999999"] {
                try await client.send(.delete, "/v1/admin/tokens/\(id)").expectProblem(400, "bad-request")
            }
            try await client.send(.delete, "/v1/admin/tokens/7").expectProblem(404, "not-found")
        }
    }

    @Test func `the page and its files need no token, run nothing else, and are sent once`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        try await fixture.run { client in
            for file in PageFile.all(isOpen: false) {
                let response = try await client.send(.get, file.path)
                #expect(response.status == .ok && !response.bytes.isEmpty && response.headers[.contentType] == file.mediaType)
                #expect(response.headers[.contentSecurityPolicy]?.hasPrefix("default-src 'self'; ") == true)
                #expect(response.headers[.contentSecurityPolicy]?.contains("unsafe") == false)
                #expect(response.headers[.xContentTypeOptions] == "nosniff" && response.headers[.cacheControl] == "no-cache")
                let tag = try #require(response.headers[.eTag])
                let again = try await client.send(.get, file.path, headers: [.ifNoneMatch: tag])
                #expect(again.status == .notModified && again.bytes.isEmpty)
                #expect(try await client.send(.head, file.path).status == .ok)
                try await client.send(.post, file.path).expectProblem(405, "method-not-allowed")
            }
            try await client.send(.get, "/admin/nothing").expectProblem(401, "not-authenticated")
            let slash = try await client.send(.get, "/admin/")
            #expect(slash.status == .permanentRedirect && slash.headers[.location] == "../admin")
            try await client.send(.get, "/v1/spaces/").expectProblem(401, "not-authenticated")
            let page = String(decoding: try await client.send(.get, "/admin").bytes, as: UTF8.self)
            #expect(page.contains("data-access=\"token\""))
            for foreign in ["<style", "http://", "https://"] { #expect(!page.contains(foreign)) }
        }
        let open = try RelayFixture()
        try await open.run { client in
            let page = String(decoding: try await client.send(.get, "/admin").bytes, as: UTF8.self)
            #expect(page.contains("data-access=\"open\""))
        }
    }

    @Test func `the page's files name one another as they are served`() {
        let files = PageFile.all(isOpen: false)
        let paths = Set(files.map(\.path))
        for file in files where !file.mediaType.hasPrefix("image") {
            let text = String(decoding: file.bytes, as: UTF8.self)
            for found in text.matches(of: /from '\.\/([a-z]+\.js)'/) { #expect(paths.contains("/admin/\(found.1)")) }
            for found in text.matches(of: /(?:src|href)="(admin\/[^"]+)"/) { #expect(paths.contains("/\(found.1)")) }
        }
    }
}

extension RelayClient {
    func sendJSON(_ method: HTTPRequest.Method, _ path: String, _ body: String?) async throws -> TestResponse {
        guard let body else { return try await send(method, path) }
        return try await send(method, path, headers: [.contentType: "application/json; charset=utf-8"], body: Array(body.utf8))
    }
}
