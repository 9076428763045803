internal import RelayLog
internal import Synchronization

/// Limits the rate of requests, or of another counted action: a token bucket for each token or subject. On a relay
/// without tokens each address has one.
final class RateLimit: Sendable {
    enum Key: Hashable, Sendable {
        case token(Int64)
        case subject(String)
        case address(String)
    }

    private struct Bucket {
        var level: Double
        /// Monotonic milliseconds.
        var at: Int64
    }

    private let quota: Quota
    private let perSecond: Double
    private let burst: Double
    private let clock: RelayClock
    private let buckets = Mutex<[Key: Bucket]>([:])

    /// The highest number of buckets in memory; full ones can be dropped.
    private static let remembered = 16_384

    convenience init(limits: RelayLimits, clock: RelayClock = .system) {
        self.init(.requests, perSecond: Double(limits.requestsPerSecond), burst: limits.requestBurst, clock: clock)
    }

    init(_ quota: Quota, perSecond: Double, burst: Int, clock: RelayClock = .system) {
        self.quota = quota
        self.perSecond = perSecond
        self.burst = Double(burst)
        self.clock = clock
    }

    /// The number of buckets in memory.
    var count: Int { buckets.withLock { $0.count } }

    /// Takes one from a bucket. Throws `.quota` with the time until the bucket has one again.
    func take(_ key: Key) throws {
        let now = clock.monotonic()
        let lack = buckets.withLock { buckets -> Double in
            if buckets.count >= Self.remembered, buckets[key] == nil { forgetFull(&buckets, now) }
            var bucket = filled(buckets[key] ?? Bucket(level: burst, at: now), now)
            defer { buckets[key] = bucket }
            guard bucket.level >= 1 else { return 1 - bucket.level }
            bucket.level -= 1
            return 0
        }
        guard lack > 0 else { return }
        let bound: QuotaBound = if case .address = key { .address } else { .token }
        // A bucket lacks at most one, and refills by at least one per hour, so this number is small.
        throw RelayLogError.quota(quota, bound, retryAfterSeconds: max(1, Int((lack / perSecond).rounded(.up))))
    }

    private func filled(_ bucket: Bucket, _ now: Int64) -> Bucket {
        Bucket(level: min(burst, bucket.level + perSecond * Double(max(0, now - bucket.at)) / 1000), at: now)
    }

    private func forgetFull(_ buckets: inout [Key: Bucket], _ now: Int64) {
        buckets = buckets.filter { filled($0.value, now).level < burst }
        if buckets.count >= Self.remembered { buckets.removeAll(keepingCapacity: true) }
    }
}
