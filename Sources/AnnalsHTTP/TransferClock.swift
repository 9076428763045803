/// When a transfer has taken too long: as a whole, without moving, and for too few bytes. Time comes in from
/// outside, so this holds no clock.
///
/// libcurl's own low-speed limit is not used: it averages over several seconds, so that the short heartbeats of
/// an event stream count as nothing, and it reports the same error as a timeout.
struct TransferClock {
    typealias Instant = ContinuousClock.Instant

    enum Verdict: Hashable { case timeout, stalled, tooSlow }

    private let end: Instant?
    private let stallTimeout: Duration?
    private let slowest: TransferRate?
    /// When a byte last moved; nil while that is no fault of the server: before the connection stands, and
    /// while the reader of a stream keeps it paused.
    private var lastMove: Instant?
    /// When the first of `bytes` moved, which are not yet as many as `slowest` says; nil while the server may take its time.
    private var bytesSince: Instant?
    private var bytes = 0

    init(start: Instant, timeout: Duration?, stallTimeout: Duration?, slowest: TransferRate? = nil) {
        end = timeout.map { start.advanced(by: $0) }
        self.stallTimeout = stallTimeout
        self.slowest = slowest
    }

    /// The connection stands, or goes on after a pause.
    mutating func run(_ now: Instant) { (lastMove, bytesSince) = (now, nil) }

    /// The reader of the stream does not take what has arrived.
    mutating func pause() { (lastMove, bytesSince) = (nil, nil) }

    /// Bytes moved, in either direction.
    mutating func move(_ now: Instant, bytes count: Int) {
        guard lastMove != nil else { return }
        lastMove = now
        guard let slowest, count > 0 else { return }
        if bytesSince == nil { (bytesSince, bytes) = (now, 0) }
        bytes += count
        if bytes >= slowest.bytes { (bytesSince, bytes) = (now, 0) }
    }

    /// The request is sent. Until its answer begins, only a stall counts.
    mutating func waitForAnswer() { bytesSince = nil }

    /// The moment at which to look again; it may be too early, never too late.
    var deadline: Instant? {
        let stall = lastMove.flatMap { last in stallTimeout.map { last.advanced(by: $0) } }
        let slow = bytesSince.flatMap { since in slowest.map { since.advanced(by: $0.time) } }
        return [end, stall, slow].compactMap(\.self).min()
    }

    func verdict(_ now: Instant) -> Verdict? {
        if let end, now >= end { return .timeout }
        if let lastMove, let stallTimeout, now >= lastMove.advanced(by: stallTimeout) { return .stalled }
        if let bytesSince, let slowest, now >= bytesSince.advanced(by: slowest.time) { return .tooSlow }
        return nil
    }
}
