/// When a transfer has taken too long, in both senses: as a whole, and without moving. Time comes in from
/// outside, so this holds no clock.
///
/// libcurl's own low-speed limit is not used: it averages over several seconds, so that the short heartbeats of
/// an event stream count as nothing, and it reports the same error as a timeout.
struct TransferClock {
    typealias Instant = ContinuousClock.Instant

    enum Verdict: Hashable { case timeout, stalled }

    private let end: Instant?
    private let stallTimeout: Duration?
    /// When a byte last moved; nil while that is no fault of the server: before the connection stands, and
    /// while the reader of a stream keeps it paused.
    private var lastMove: Instant?

    init(start: Instant, timeout: Duration?, stallTimeout: Duration?) {
        end = timeout.map { start.advanced(by: $0) }
        self.stallTimeout = stallTimeout
    }

    /// The connection stands, or goes on after a pause.
    mutating func run(_ now: Instant) { lastMove = now }

    /// The reader of the stream does not take what has arrived.
    mutating func pause() { lastMove = nil }

    /// Bytes moved, in either direction.
    mutating func move(_ now: Instant) {
        if lastMove != nil { lastMove = now }
    }

    /// The moment at which to look again; it may be too early, never too late.
    var deadline: Instant? {
        let stall = lastMove.flatMap { last in stallTimeout.map { last.advanced(by: $0) } }
        return [end, stall].compactMap(\.self).min()
    }

    func verdict(_ now: Instant) -> Verdict? {
        if let end, now >= end { return .timeout }
        if let lastMove, let stallTimeout, now >= lastMove.advanced(by: stallTimeout) { return .stalled }
        return nil
    }
}
