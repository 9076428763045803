import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore
import Synchronization

/// Prints the rows that a trial would change, while the store visits them: the first ones as text, or all of them as a part of one
/// JSON document.
final class ChangedRowsPrint: Sendable {
    /// The number of rows in text.
    static let printedRows = 20

    private let print: HistoryPrint
    private let head: JSON
    private let isTrial: Bool
    private let count = Mutex(0)

    /// - Parameters:
    ///   - head: the first members of the JSON document.
    ///   - isTrial: whether the document has the rows.
    init(console: Console, json: Bool, head: JSON, isTrial: Bool) {
        print = HistoryPrint(console: console, json: json, values: true)
        self.head = head
        self.isTrial = isTrial
    }

    @Sendable func visit(_ change: HistoryChange) throws {
        if print.console.isClosed { throw CheckFailed() }
        let before = count.withLock { count in
            count += 1
            return count - 1
        }
        if print.json {
            print.console.sink.write(before == 0 ? beginning : ",")
            print.console.sink.write(print.object(change).description)
        } else if before < Self.printedRows {
            print.console.print(print.line(change))
        }
    }

    /// The rows that text leaves out, as a line.
    func finishText() {
        let rest = count.withLock { $0 } - Self.printedRows
        if rest > 0 { print.console.print("and \(Count.of(rest, "more row")); --json prints all") }
    }

    /// - Parameter tail: the other members of the document.
    func finishJSON(_ tail: KeyValuePairs<String, JSON>) {
        let rest = JSON.object(tail).description.dropFirst()
        guard isTrial else { return print.console.print("\(head.description.dropLast()),\(rest)") }
        let isEmpty = count.withLock { $0 } == 0
        print.console.print("\(isEmpty ? beginning : "")],\(rest)")
    }

    private var beginning: String { "\(head.description.dropLast()),\"rows\":[" }
}

/// Prints why a revert was refused.
enum RefusalPrint {
    /// The rows in the way, each with the later transactions, and then the transactions to revert first.
    static func print(_ refusal: RevertRefusal, _ replicas: KnownReplicas, on console: Console) {
        for obstacle in refusal.obstacles {
            let row = obstacle.key.isEmpty ? "" : " \(RowText.row(obstacle.key, obstacle.keyColumns))"
            let numbers = obstacle.transactions.map { "#\($0.number)" }.joined(separator: ", ")
            let by = numbers.isEmpty ? "" : " by \(numbers)"
            console.print("\(console.style(.red, "in the way: \(PrintableText.of(obstacle.table))\(row)")): \(words(obstacle))\(by)")
        }
        if refusal.count > refusal.obstacles.count {
            console.print("and \(Count.of(refusal.count - refusal.obstacles.count, "more row"))")
        }
        guard !refusal.transactions.isEmpty else { return }
        console.print(refusal.isRebased ? "revert instead:" : "revert first, in this order, or keep them with --skip-changed:")
        let print = HistoryPrint(console: console, json: false, values: false, replicas: replicas)
        for transaction in refusal.transactions { console.print("  " + print.line(transaction)) }
        if refusal.hasMore { console.print("  and more") }
    }

    private static func words(_ obstacle: RevertObstacle) -> String {
        switch obstacle.reason {
        case .changed: "\(PrintableText.of(obstacle.columns.joined(separator: ", "))) changed"
        case .deleted: "deleted"
        case .insertedAgain: "inserted again"
        case .otherParent: "would refer to another row, which got the key of its parent since"
        case .nullKey: "a row with NULL in its key"
        case .notTracked: "not tracked any more"
        }
    }

    static func members(_ refusal: RevertRefusal, _ error: AnnalsError) -> KeyValuePairs<String, JSON> {
        [
            "refused": .bool(true), "message": .text(error.message), "obstacleCount": .integer(refusal.count),
            "obstacles": .array(refusal.obstacles.map(json)),
            "revertFirst": .array(refusal.transactions.map { HistoryPrint.heading($0, KnownReplicas()) }),
            "hasMore": .bool(refusal.hasMore),
        ]
    }

    private static func json(_ obstacle: RevertObstacle) -> JSON {
        .object([
            "table": .text(obstacle.table), "key": obstacle.key.isEmpty ? .null : RowJSON.row(obstacle.key, obstacle.keyColumns),
            "reason": .text(obstacle.reason.rawValue), "columns": .array(obstacle.columns.map { .text($0) }),
            "transactions": .array(obstacle.transactions.map { .integer($0.number) }),
        ])
    }
}
