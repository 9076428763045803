import AnnalsCore
import Testing

@testable import AnnalsCLI
@testable import AnnalsSync

@Suite("How a sync of several stores ends")
struct SyncStatusTests {
    private static let unreachable = AnnalsError(.relayUnreachable, "away", isRetryable: true)
    private static let busy = AnnalsError(.busy, "locked", isRetryable: true)
    private static let forbidden = AnnalsError(.notPermitted, "no")

    @Test(
        "what does not pass by itself comes first; a part that does is to be tried again",
        arguments: [
            ([nil, nil], nil), ([unreachable], 69), ([busy], 75), ([unreachable, unreachable], 69), ([unreachable, nil], 75),
            ([nil, unreachable], 75), ([unreachable, busy], 69), ([nil, forbidden], 77), ([unreachable, forbidden, nil], 77),
        ] as [([AnnalsError?], Int32?)])
    func status(_ errors: [AnnalsError?], _ expected: Int32?) {
        let outcomes = errors.map { error in
            SyncRound.Outcome(path: "a.db", result: error.map { .failure($0) } ?? .success(SyncAgent.Summary()))
        }
        #expect(SyncRound.status(outcomes)?.rawValue == expected)
    }
}
