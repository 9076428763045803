/// The pauses between attempts: exponential with jitter, so that many replicas do not retry at the same time.
///
/// Source: Marc Brooker, "Exponential Backoff and Jitter", 2015.
struct Backoff {
    private var attempt = 0

    /// The next pause. `random` returns a number in 0..<1.
    mutating func next(random: () -> Double) -> Duration {
        let factor = Double(UInt64(1) << UInt64(min(attempt, 20)))
        attempt += 1
        let ceiling = min(SyncLimits.firstPause * factor, SyncLimits.longestPause)
        return ceiling * (0.5 + random() / 2)
    }

    mutating func reset() {
        attempt = 0
    }
}
