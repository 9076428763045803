import AnnalsHistory
import Testing

@testable import AnnalsCLI

@Suite("The status of a store")
struct StatusPrintTests {
    @Test(
        "says how coarse history is, in words that round up",
        arguments: [
            (12, 40, 40, Duration.seconds(10_800), "12 of 40 transactions, up to 3 h of commits in one"),
            (1, 1_000, 5_000, .seconds(10_801), "1 of the newest 1000 transactions, up to 4 h of commits in one"),
            (2, 2, 2, .milliseconds(1_001), "2 of 2 transactions, up to 2 s of commits in one"),
            (2, 2, 2, .seconds(61), "2 of 2 transactions, up to 2 min of commits in one"),
            (2, 2, 2, .seconds(86_400), "2 of 2 transactions, up to 1 d of commits in one"),
            (2, 2, 2, .milliseconds(999), "2 of 2 transactions, less than 1 s of commits in each"),
            (0, 7, 7, .zero, nil),
        ] as [(Int, Int64, Int64, Duration, String?)])
    func external(_ count: Int, _ examined: Int64, _ all: Int64, _ longest: Duration, _ text: String?) {
        let line = StatusPrint.line(ExternalHistory(transactions: count, examined: examined, longest: longest), of: all)
        let hint = "; annals watch or annals sync --watch records each commit"
        #expect(line == text.map { longest < .seconds(1) ? $0 : $0 + hint })
    }
}
