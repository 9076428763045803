/// The loop's time: read once a turn, and when to look at the deadlines next. Used by the client's thread only.
final class Schedule {
    private(set) var now: TransferClock.Instant = .now
    /// No deadline is earlier than this. Bytes that move only put deadlines off, so it may be too early, which
    /// costs one look, but never too late.
    private(set) var earliest: TransferClock.Instant?

    func turn() { now = .now }

    func note(_ deadline: TransferClock.Instant) {
        earliest = earliest.map { min($0, deadline) } ?? deadline
    }

    var isDue: Bool { earliest.map { $0 <= now } ?? false }

    /// Begins a look at all deadlines, each of which is noted again.
    func forget() { earliest = nil }

    /// Milliseconds until the earliest deadline, at most a minute.
    func pollMilliseconds() -> Int32 {
        guard let earliest else { return 60_000 }
        return Int32(min(60_000, now.duration(to: earliest).wholeMilliseconds))
    }
}
