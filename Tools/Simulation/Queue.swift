/// The scheduled events in the order of virtual time. Events at the same time are in the order in which they were scheduled.
struct Queue<Event> {
    private var heap: [(time: Int64, number: Int, event: Event)] = []
    private var count = 0

    var isEmpty: Bool { heap.isEmpty }

    mutating func add(_ event: Event, at time: Int64) {
        count += 1
        heap.append((time, count, event))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func next() -> (time: Int64, event: Event)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        return (first.time, first.event)
    }

    /// Replaces every scheduled event by another one at the same time, or removes it.
    mutating func replaceAll(_ replace: (Event) -> Event?) {
        heap = heap.compactMap { entry in replace(entry.event).map { (entry.time, entry.number, $0) } }
        // A sorted array is a heap.
        heap.sort { ($0.time, $0.number) < ($1.time, $1.number) }
    }

    private mutating func sink() {
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && isBefore(child, least) { least = child }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].time, heap[left].number) < (heap[right].time, heap[right].number)
    }
}
