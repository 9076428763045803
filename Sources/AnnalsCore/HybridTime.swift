/// A hybrid logical time: wall-clock milliseconds since 1970, and a counter for what happened within one of them.
///
/// Source: Kulkarni and others, "Logical Physical Clocks", 2014. Ties between replicas are settled by ReplicaID.
public struct HybridTime: Hashable, Comparable, Codable, Sendable {
    /// Milliseconds since 1970-01-01 UTC.
    public var milliseconds: Int64
    public var counter: UInt32

    package init(milliseconds: Int64, counter: UInt32 = 0) {
        self.milliseconds = milliseconds
        self.counter = counter
    }

    package static let zero = HybridTime(milliseconds: 0)

    public static func < (left: Self, right: Self) -> Bool {
        (left.milliseconds, left.counter) < (right.milliseconds, right.counter)
    }

    /// The smaller of this time and `receipt` + 60 s, so that a clock that runs ahead does not win for ever.
    ///
    /// `receipt` is when the relay took the entry, in milliseconds since 1970.
    package func clamped(toReceipt receipt: Int64) -> HybridTime {
        min(self, HybridTime(milliseconds: min(receipt, .max - Self.allowedLeadMilliseconds) + Self.allowedLeadMilliseconds))
    }

    /// How far a stamp may lead the relay's receipt time before it is cut down to it.
    package static let allowedLeadMilliseconds: Int64 = 60_000
}

/// A replica's clock: never goes back, and passes every time it has seen.
package struct HybridClock: Sendable {
    package private(set) var last: HybridTime

    package init(last: HybridTime = .zero) {
        self.last = last
    }

    /// The next time, given the wall clock's milliseconds since 1970.
    package mutating func tick(now milliseconds: Int64) -> HybridTime {
        if milliseconds > last.milliseconds {
            last = HybridTime(milliseconds: milliseconds)
        } else if last.counter == .max {
            // A file may say that it is the end of all time, where the clock stands still.
            last = HybridTime(milliseconds: min(last.milliseconds, .max - 1) + 1)
        } else {
            last.counter += 1
        }
        return last
    }

    /// Notes a time seen elsewhere, already clamped, so that what is written next is later.
    package mutating func observe(_ time: HybridTime) {
        last = max(last, time)
    }
}
