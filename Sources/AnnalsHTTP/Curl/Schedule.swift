/// The loop's time, which is read once in each iteration, and the time of the next deadline check. Only the client's
/// thread uses it.
final class Schedule {
    private(set) var now: TransferClock.Instant = .now
    /// No deadline is earlier than this time. Moved bytes only make deadlines later. So this time may be too early,
    /// which costs one check, but it is never too late.
    private(set) var earliest: TransferClock.Instant?

    func turn() { now = .now }

    func note(_ deadline: TransferClock.Instant) {
        earliest = earliest.map { min($0, deadline) } ?? deadline
    }

    var isDue: Bool { earliest.map { $0 <= now } ?? false }

    /// Starts a check of all deadlines. The check adds each of them again.
    func forget() { earliest = nil }

    /// Milliseconds until the earliest deadline, at most a minute.
    func pollMilliseconds() -> Int32 {
        guard let earliest else { return 60_000 }
        return Int32(min(60_000, now.duration(to: earliest).wholeMilliseconds))
    }
}
