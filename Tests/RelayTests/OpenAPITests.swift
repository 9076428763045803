import AnnalsWire
import Foundation
import HTTPTypes
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// The document matches the relay, as far as their texts show. Tests/APITests sends requests to a running relay.
@Suite struct OpenAPITests {
    @Test func `it has every route and no other`() throws {
        let fixture = try RelayFixture()
        let limits = RelayLimits()
        let authorizer = Authorizer(tokens: fixture.log.tokens, isOpen: false)
        let readiness = Readiness(log: fixture.log)
        let rate = RateLimit(limits: limits)
        let spaces = SpaceRoutes(log: fixture.log, readiness: readiness, rate: rate, addressRate: rate)
        let metrics = RelayMetrics()
        let readings = Readings(log: fixture.log, readiness: readiness, identities: nil, silence: 1)
        let told = MetricsRoutes(metrics: metrics, readings: readings, authorizer: authorizer, token: nil)
        let open = Routes.open(spaces: spaces, told: told, isOpen: false)
        let closed = Routes.closed(log: fixture.log, limits: limits, authorizer: authorizer, spaces: spaces, metrics: metrics)
        func written(_ table: Routes.Table) -> Set<String> {
            Set(
                table.flatMap { path, handlers in
                    let path = path.split(separator: "/").map { $0.hasPrefix(":") ? "{\($0.dropFirst())}" : String($0) }
                    return handlers.map { "\($0.0) /\(path.joined(separator: "/"))" }
                })
        }
        func documented(_ operations: [APIOperation]) -> Set<String> { Set(operations.map { "\($0.method) \($0.path)" }) }
        #expect(documented(APIOperations.all.filter { $0.scope == nil }) == written(open))
        #expect(documented(APIOperations.all.filter { $0.scope != nil }) == written(closed))
        #expect(Set(APIOperations.all.map(\.id)).count == APIOperations.all.count)
    }

    @Test func `it needs no token, and whatever it refers to is there`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        try await fixture.run { client in
            let response = try await client.send(.get, "/openapi.json")
            #expect(response.status == .ok && response.headers[.contentType] == "application/json")
            let text = String(decoding: response.bytes, as: UTF8.self)
            let references = text.matches(of: /"\$ref":"#\/components\/([a-z]+)\/([A-Za-z.-]+)"/)
            #expect(references.count > 30)
            for found in references {
                #expect(OpenAPIDocument.document["components"]?[String(found.1)]?[String(found.2)] != nil, "\(found.0)")
            }
            #expect(Set(text.matches(of: /"\$ref"/).map(\.0)).count == 1 && text.matches(of: /"\$ref"/).count == references.count)
        }
    }

    @Test func `every kind of problem is an answer to something`() throws {
        let text = String(decoding: try JSONEncoder().encode(OpenAPIDocument.document), as: UTF8.self)
        // An unknown address and a wrong method belong to no operation.
        for code in Problem.Code.allCases where code != .methodNotAllowed { #expect(text.contains("\"\(code.rawValue)\""), "\(code)") }
    }

    @Test func `members of requests are those that are taken`() throws {
        for (schema, members) in [("Purge", PurgeRequest.members), ("TokenToMake", TokenRequest.members)] {
            guard case .object(let properties)? = APIComponents.schemas[schema]?["properties"] else {
                Issue.record("no schema \(schema)")
                continue
            }
            #expect(Set(properties.keys) == members)
        }
    }
}
