import AnnalsCore
import AnnalsSchema

/// The value of one column of a row before and after a transaction, if some of the transaction's changes leave the column out.
///
/// A change that leaves a value out did not change it. So only the other changes determine the column, by the rules for whole rows:
/// as a sequence if each change continues the one before, otherwise by which value was left and which was entered more often.
struct ColumnLife: Sendable {
    package let columnIndex: Int
    package private(set) var start: Value = .null
    package private(set) var end: Value = .null
    /// Whether any change has the value. If not, the value did not change and is unknown.
    private(set) var isKnown = false

    /// - Parameter edges: the row's changes; nil in them means that the row does not exist.
    init(columnIndex: Int, edges: [RowEdge]) {
        self.columnIndex = columnIndex
        let steps: [Step] = edges.compactMap { edge in
            edge.leftOut.contains(columnIndex) ? nil : (edge.from?.row[columnIndex], edge.to?.row[columnIndex])
        }
        guard let first = steps.first else { return }
        isKnown = true
        let ends = Self.inOrder(steps) ?? Self.byBalance(steps) ?? (first.from, steps[steps.count - 1].to)
        // If the row exists before or after, the column has a value there, even if changes contradict each other.
        start = ends.from ?? first.from ?? first.to ?? .null
        end = ends.to ?? steps[steps.count - 1].to ?? steps[steps.count - 1].from ?? .null
    }

    private typealias Step = (from: Value?, to: Value?)

    private static func inOrder(_ steps: [Step]) -> Step? {
        var present = steps[0].from
        for step in steps {
            guard step.from == present else { return nil }
            present = step.to
        }
        return (steps[0].from, present)
    }

    private static func byBalance(_ steps: [Step]) -> Step? {
        var balance: [Value?: Int] = [:]
        for step in steps {
            balance[step.from, default: 0] -= 1
            balance[step.to, default: 0] += 1
        }
        let open = balance.filter { $0.value != 0 }
        guard open.count == 2, let start = open.first(where: { $0.value == -1 }), let end = open.first(where: { $0.value == 1 }) else {
            return nil
        }
        return (start.key, end.key)
    }
}

extension RowSlot {
    /// Whether some change does not have all values.
    var leavesOut: Bool { edges.contains { !$0.leftOut.isEmpty } }

    /// Removes the columns that some changes leave out, and returns the values of each.
    mutating func takeColumns() -> [ColumnLife] {
        bringInOrder()
        let columnIndexes = Set(edges.flatMap(\.leftOut)).sorted()
        let columns = columnIndexes.map { ColumnLife(columnIndex: $0, edges: edges) }
        for columnIndex in columnIndexes { clear(columnIndex) }
        return columns
    }
}
