import Synchronization

/// Hands out elements one after another.
final class Remaining<Element: Sendable>: Sendable {
    private let elements: [Element]
    private let place = Mutex(0)

    init(_ elements: [Element]) { self.elements = elements }

    func next() -> Element? {
        place.withLock { place in
            guard place < elements.count else { return nil }
            defer { place += 1 }
            return elements[place]
        }
    }
}
