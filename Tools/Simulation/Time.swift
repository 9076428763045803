import Synchronization

/// The world's time, in milliseconds since its start. Only the world changes it.
final class VirtualTime: Sendable {
    /// The start, in milliseconds since 1970.
    static let beginning: Int64 = 1_700_000_000_000

    private let state = Mutex<Int64>(0)

    var now: Int64 { state.withLock { $0 } }

    func move(to time: Int64) {
        state.withLock { $0 = max($0, time) }
    }
}

/// One machine's wall clock: ahead or behind, too fast or too slow, and sometimes set by hand.
final class WallClock: Sendable {
    private let time: VirtualTime
    private let drift: Int64
    private let offset: Mutex<Int64>

    init(_ time: VirtualTime, offset: Int64 = 0, drift: Int64 = 0) {
        self.time = time
        self.drift = drift
        self.offset = Mutex(offset)
    }

    /// Milliseconds since 1970 by this clock.
    var milliseconds: Int64 {
        let now = time.now
        return VirtualTime.beginning + now + now * drift / 1_000 + offset.withLock { $0 }
    }

    /// The same as SQLite's Julian day number.
    var julianDay: Double {
        Double(milliseconds) / 86_400_000 + 2_440_587.5
    }

    func turn(by milliseconds: Int64) {
        offset.withLock { $0 += milliseconds }
    }
}
