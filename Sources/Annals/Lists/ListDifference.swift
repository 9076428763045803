/// The difference of two lists, each without duplicate elements.
///
/// Elements of a longest series that has the same order in both lists do not move, so that as few elements as possible move. The
/// standard library's difference needs time and memory with the square of the number of changes, which is too slow for a list
/// with a new sort order.
enum ListDifference {
    static func between<ID: Hashable>(_ old: [ID], _ new: [ID]) -> CollectionDifference<ID> {
        let prefix = zip(old, new).prefix { $0 == $1 }.count
        let suffix = zip(old.dropFirst(prefix).reversed(), new.dropFirst(prefix).reversed()).prefix { $0 == $1 }.count
        let (oldRange, newRange) = (prefix..<old.count - suffix, prefix..<new.count - suffix)
        guard !oldRange.isEmpty || !newRange.isEmpty else { return none() }

        let places = Dictionary(newRange.map { (new[$0], $0) }, uniquingKeysWith: { first, _ in first })
        let kept = oldRange.compactMap { index in places[old[index]].map { (old: index, new: $0) } }
        let still = longestRising(kept.map(\.new))
        var changes: [CollectionDifference<ID>.Change] = []
        var origins: [Int: Int] = [:]
        for pair in kept { origins[pair.new] = pair.old }
        for index in oldRange {
            let place = places[old[index]]
            if let place, still.contains(place) { continue }
            changes.append(.remove(offset: index, element: old[index], associatedWith: place))
        }
        for index in newRange where !still.contains(index) {
            changes.append(.insert(offset: index, element: new[index], associatedWith: origins[index]))
        }
        return CollectionDifference(changes) ?? new.difference(from: old)
    }

    private static func none<ID: Hashable>() -> CollectionDifference<ID> { [ID]().difference(from: []) }

    /// A longest series of numbers that rise from left to right.
    private static func longestRising(_ numbers: [Int]) -> Set<Int> {
        // At index n: the end of the series of length n + 1 with the lowest last number.
        var ends: [Int] = []
        var before = [Int](repeating: -1, count: numbers.count)
        for (index, number) in numbers.enumerated() {
            var (low, high) = (0, ends.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[ends[middle]] < number { low = middle + 1 } else { high = middle }
            }
            if low > 0 { before[index] = ends[low - 1] }
            if low == ends.count { ends.append(index) } else { ends[low] = index }
        }
        var series: Set<Int> = []
        var index = ends.last ?? -1
        while index >= 0 {
            series.insert(numbers[index])
            index = before[index]
        }
        return series
    }
}
