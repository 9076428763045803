import AnnalsHistory
import AnnalsStore

/// Prints the transactions of a request page by page, so that a slow reader of the output does not block other writers for long.
struct HistoryPages: Sendable {
    var store: Store
    var request: HistoryRequest
    var limit: Int?

    private static let pageTransactions = 500
    /// A page ends when this much text is ready.
    private static let pageBytes = 1 << 20

    private struct Page: Sendable {
        var text = HistoryPrint.Buffer()
        var count = 0
        var last: HistoryToken?
        var bounds: HistoryBounds?
    }

    /// Returns the number of printed transactions, and the token of the last one.
    func print(with print: HistoryPrint) async throws -> (count: Int, last: HistoryToken?) {
        var left = limit ?? .max
        var total = 0
        var reached: HistoryToken?
        var next = request
        while left > 0, !print.console.isClosed {
            let query = next.limit(min(left, Self.pageTransactions))
            let page = try await store.read { db in
                var page = Page()
                let reader = try HistoryReader(db)
                page.bounds = reader.bounds
                try reader.forEachTransaction(query) { transaction in
                    try print.render(transaction, reader, query, into: &page.text)
                    page.count += 1
                    page.last = transaction.token
                    return page.text.bytes < Self.pageBytes
                }
                return page
            }
            print.hand(page.text)
            total += page.count
            left -= page.count
            guard let last = page.last, let bounds = page.bounds else { break }
            reached = last
            next = next.begun(bounds).continuing(after: last)
        }
        return (total, reached)
    }
}
