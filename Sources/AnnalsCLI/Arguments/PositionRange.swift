import AnnalsCore
import ArgumentParser

/// One position or a range of positions: `1200` or `1200-1300`.
struct PositionRange: ExpressibleByArgument, Sendable, Hashable {
    var positions: ClosedRange<Position>
    var isOne: Bool

    init?(argument: String) {
        let parts = argument.split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
        guard (1...2).contains(parts.count), let first = parts[0], let last = parts[parts.count - 1], first > 0, first <= last else {
            return nil
        }
        positions = Position(first)...Position(last)
        isOne = parts.count == 1
    }
}
