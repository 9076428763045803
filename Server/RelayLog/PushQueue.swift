internal import AnnalsCore

/// Pushes that wait for the writer, in the order in which it takes them: fair between spaces, and first come, first served within one.
///
/// Each gets a start on a scale of bytes: where the space's push before it ends, but not before what was taken last. So a space whose
/// pushes are many and large is ahead of itself only, and a push to a space that was quiet goes next (start-time fair queueing).
struct PushQueue<Element: Sendable>: Sendable {
    private struct Entry: Sendable {
        var element: Element
        var space: SpaceName
        var size: Int
        var start: Int64
    }

    /// What one space has here.
    private struct Lane: Sendable {
        var count = 0
        var bytes = 0
        /// Where its newest push ends.
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
    /// Where the push begins that was taken last.
    private var now: Int64 = 0
    private(set) var byteCount = 0

    /// What a push costs besides its bytes, in bytes.
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

    /// The next ones that share a commit: at least one, and together no more than the limits.
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
        // A space that has nothing here is remembered until the scale has come to its end: it would get ahead otherwise.
        lanes = lanes.filter { $0.value.count > 0 || $0.value.end > now }
        byteCount -= bytes
        let elements = group.map(\.element)
        entries.removeFirst(count)
        // The scale begins anew, long before it ends.
        if entries.isEmpty { (now, lanes) = (0, [:]) }
        return elements
    }
}

extension Array {
    /// The first index at which what is sorted by it begins to be true.
    fileprivate func partitioningIndex(_ isBehind: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = low + (high - low) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
