import AnnalsCore
import AnnalsHTTP
import AnnalsWire
import Foundation
import Testing

@testable import AnnalsSync

/// The id that a relay gives a request is in the error, so that its operator can find the request in the log.
@Suite("The id of a refused request")
struct RequestIDTests {
    private struct Case: Sendable {
        var sent: String
        var kept: String?
    }

    private static let cases = [
        Case(sent: "6d0f3a2b-9.x_Y", kept: "6d0f3a2b-9.x_Y"), Case(sent: "", kept: nil), Case(sent: "a b", kept: nil),
        Case(sent: "a\u{1b}[31m", kept: nil), Case(sent: "ä", kept: nil), Case(sent: String(repeating: "a", count: 65), kept: nil),
    ]

    @Test("is kept if it is short plain text", arguments: [(404, true), (503, true), (503, false)])
    func kept(_ status: Int, _ isProblem: Bool) throws {
        let relay = try HTTPRelay(address: "http://127.0.0.1:1", space: #require(SpaceName("shop")), client: HTTPClient())
        let problem = Problem(status == 404 ? .spaceNotFound : .unavailable)
        let body = try JSONEncoder().encode(problem)
        #expect(try JSONDecoder().decode(Problem.self, from: body) == problem)
        for example in Self.cases {
            let type = isProblem ? Endpoints.MediaType.problem : "text/html"
            let headers = HTTPHeaders([.init(name: "Content-Type", value: type), .init(name: "x-request-id", value: example.sent)])
            #expect {
                _ = try relay.accepted(HTTPResponse(status: status, headers: headers, body: [UInt8](body)))
            } throws: { error in
                (error as? TransportError)?.annalsError.requestID == example.kept
            }
        }
    }
}
