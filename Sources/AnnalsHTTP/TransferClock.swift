/// Decides when a transfer has taken too long: in total, without a moved byte, or with too few bytes. The caller passes
/// the time, so this type has no clock.
///
/// libcurl's own low-speed limit is not used. It averages over several seconds, and it reports the same error as a
/// timeout.
struct TransferClock {
    typealias Instant = ContinuousClock.Instant

    enum Verdict: Hashable { case timeout, stalled, tooSlow }

    private let end: Instant?
    private let stallTimeout: Duration?
    private let slowest: TransferRate?
    /// When a byte moved last. nil while no connection is open, because the server is not responsible then.
    private var lastMove: Instant?
    /// When the first of `bytes` moved. There are fewer `bytes` than `slowest` demands. nil while the rate is not
    /// checked.
    private var bytesSince: Instant?
    private var bytes = 0

    init(start: Instant, timeout: Duration?, stallTimeout: Duration?, slowest: TransferRate? = nil) {
        end = timeout.map { start.advanced(by: $0) }
        self.stallTimeout = stallTimeout
        self.slowest = slowest
    }

    /// The connection is open.
    mutating func run(_ now: Instant) { (lastMove, bytesSince) = (now, nil) }

    /// The connection broke, and the request waits for a new one.
    mutating func disconnect() { (lastMove, bytesSince) = (nil, nil) }

    /// Bytes moved in either direction.
    mutating func move(_ now: Instant, bytes count: Int) {
        guard lastMove != nil else { return }
        lastMove = now
        guard let slowest, count > 0 else { return }
        if bytesSince == nil { (bytesSince, bytes) = (now, 0) }
        bytes += count
        if bytes >= slowest.bytes { (bytesSince, bytes) = (now, 0) }
    }

    /// The request is sent. Until the answer begins, only a stall is checked.
    mutating func waitForAnswer() { bytesSince = nil }

    /// When to check again. This time may be too early, but never too late.
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
