/// The time of a hybrid logical clock: wall-clock milliseconds since 1970, and a counter for events within one
/// millisecond.
///
/// Source: Kulkarni and others, "Logical Physical Clocks", 2014. `ReplicaID` breaks ties between replicas.
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

    /// The smaller of this time and `receipt` + 60 s. The limit keeps a clock that runs ahead from winning every
    /// conflict.
    ///
    /// `receipt` is the time when the relay received the entry, in milliseconds since 1970.
    package func clamped(toReceipt receipt: Int64) -> HybridTime {
        min(self, HybridTime(milliseconds: min(receipt, .max - Self.allowedLeadMilliseconds) + Self.allowedLeadMilliseconds))
    }

    /// The time of a write that is older than its transaction.
    package func earlier(by age: Int64) -> HybridTime {
        age <= 0 || milliseconds <= 0 ? self : HybridTime(milliseconds: milliseconds - min(age, milliseconds))
    }

    /// How far a time may be ahead of the relay's receipt time.
    package static let allowedLeadMilliseconds: Int64 = 60_000
}

/// A replica's hybrid logical clock. Each time is later than every time it gave or observed before.
package struct HybridClock: Sendable {
    package private(set) var last: HybridTime

    package init(last: HybridTime = .zero) {
        self.last = last
    }

    /// The next time. `milliseconds` is the wall clock's time since 1970.
    package mutating func tick(now milliseconds: Int64) -> HybridTime {
        if milliseconds > last.milliseconds {
            last = HybridTime(milliseconds: milliseconds)
        } else if last.counter == .max {
            // A file may contain the largest possible time. The clock stops there and does not overflow.
            last = HybridTime(milliseconds: min(last.milliseconds, .max - 1) + 1)
        } else {
            last.counter += 1
        }
        return last
    }

    /// Records a time of another replica, so that later local times are greater. The caller must clamp it first.
    package mutating func observe(_ time: HybridTime) {
        last = max(last, time)
    }
}
