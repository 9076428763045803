internal import AnnalsCore

/// The queue of pushes for the writer: fair between spaces, first in, first out within a space.
///
/// Each push gets a start on a scale of bytes (start-time fair queueing). It is the end of the space's previous push,
/// but not less than the start of the push that was taken last. So a space with many large pushes delays only itself,
/// and a push to a quiet space goes next.
struct PushQueue<Element: Sendable>: Sendable {
    private struct Entry: Sendable {
        var element: Element
        var space: SpaceName
        var size: Int
        var start: Int64
    }

    /// The queued pushes of one space.
    private struct Lane: Sendable {
        var count = 0
        var bytes = 0
        /// The end of its newest push on the scale.
        var end: Int64

        mutating func add(_ size: Int, end: Int64) {
            count += 1
            bytes += size
            self.end = end
        }

        mutating func remove(_ size: Int) {
            count -= 1
            bytes -= size
        }
    }

    private var entries: [Entry] = []
    private var lanes: [SpaceName: Lane] = [:]
    /// The start of the push that was taken last.
    private var now: Int64 = 0
    private(set) var byteCount = 0

    /// The fixed cost of a push, in bytes.
    private static var overhead: Int64 { 4_096 }

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }

    func count(of space: SpaceName) -> Int { lanes[space]?.count ?? 0 }
    func byteCount(of space: SpaceName) -> Int { lanes[space]?.bytes ?? 0 }

    mutating func append(_ element: Element, of space: SpaceName, size: Int) {
        let start = max(now, lanes[space]?.end ?? now)
        let place = entries.partitioningIndex { $0.start > start }
        entries.insert(Entry(element: element, space: space, size: size, start: start), at: place)
        lanes[space, default: Lane(end: start)].add(size, end: start + Int64(size) + Self.overhead)
        byteCount += size
    }

    /// Removes the next group for one commit: at least one push, and no more than the limits allow.
    mutating func takeGroup(limits: RelayLogLimits) -> [Element] {
        var bytes = 0
        var count = 0
        for entry in entries.prefix(limits.groupPushes) {
            if count > 0, entry.size > limits.groupBytes - bytes { break }
            bytes += entry.size
            count += 1
        }
        let group = entries.prefix(count)
        if let last = group.last { now = last.start }
        for entry in group { lanes[entry.space]?.remove(entry.size) }
        // A space without queued pushes keeps its end until the scale has passed it. Otherwise its next push could
        // overtake others.
        lanes = lanes.filter { $0.value.count > 0 || $0.value.end > now }
        byteCount -= bytes
        let elements = group.map(\.element)
        entries.removeFirst(count)
        // Resets the scale, long before it could overflow.
        if entries.isEmpty { (now, lanes) = (0, [:]) }
        return elements
    }
}

extension Array {
    /// The first index with a true predicate. The array must be sorted by the predicate.
    fileprivate func partitioningIndex(_ isBehind: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = low + (high - low) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
