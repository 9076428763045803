extension RandomAccessCollection {
    /// The first index whose element fulfils a condition, if all elements that fulfil it come after those that do not. `endIndex` if
    /// there is none. Takes logarithmic time.
    package func partitioningIndex(where isAfter: (Element) throws -> Bool) rethrows -> Index {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = index(low, offsetBy: distance(from: low, to: high) / 2)
            if try isAfter(self[middle]) { high = middle } else { low = index(after: middle) }
        }
        return low
    }
}
