package import AnnalsCore
internal import Synchronization

/// Who uses a shared resource.
package struct Taker: Sendable, Hashable {
    /// nil on an open relay.
    package var credential: ReplicaOwner?
    /// nil if the request concerns no single space.
    package var space: SpaceName?
    /// The network of the connection; nil if it does not identify the client, as for an address of this machine.
    package var network: String?

    package init(credential: ReplicaOwner? = nil, space: SpaceName? = nil, network: String? = nil) {
        self.credential = credential
        self.space = space
        self.network = network
    }

    fileprivate var keys: [(bound: QuotaBound, key: Shares.Key)] {
        [
            credential.map { (.token, .credential($0)) }, space.map { (.space, .space($0)) }, network.map { (.address, .network($0)) },
        ].compactMap(\.self)
    }
}

/// The share of a resource that one credential, one space and one address can use, in percent.
package struct SharePercents: Sendable, Hashable {
    package var token = 25
    package var space = 50
    package var address = 50

    package init() {}

    func of(_ total: Int, _ bound: QuotaBound) -> Int {
        let percent =
            switch bound {
            case .relay: 100
            case .token: token
            case .space: space
            case .address: address
            }
        // In this order the calculation cannot overflow.
        return max(1, total / 100 * percent + total % 100 * percent / 100)
    }
}

/// A limited resource of the relay: bytes in flight, event streams, waits, uploads. All requests use one total. One
/// credential, one space or one address can use at most a share of it, so that the rest is free for others.
package final class Shares: Sendable {
    fileprivate enum Key: Hashable {
        case credential(ReplicaOwner)
        case space(SpaceName)
        case network(String)
    }

    private struct State {
        var used = 0
        var byKey: [Key: Int] = [:]
    }

    private let quota: Quota
    private let total: Int
    private let percents: SharePercents
    private let retryAfterSeconds: Int
    private let state = Mutex(State())

    package init(_ quota: Quota, total: Int, percents: SharePercents, retryAfterSeconds: Int) {
        self.quota = quota
        self.total = total
        self.percents = percents
        self.retryAfterSeconds = retryAfterSeconds
    }

    package var used: Int { state.withLock { $0.used } }

    /// Takes an amount. Throws `.quota`.
    ///
    /// - Parameter held: what the same request took before. A request that alone uses the total, or a share, always
    ///   fits, unless `held` is nil.
    package func take(_ amount: Int, by taker: Taker, held: Int? = nil) throws(RelayLogError) {
        let keys = taker.keys
        let refusal = state.withLock { state -> QuotaBound? in
            func fits(_ used: Int, _ most: Int) -> Bool { used == held || amount <= most - used }
            guard fits(state.used, total) else { return .relay }
            for (bound, key) in keys where !fits(state.byKey[key] ?? 0, percents.of(total, bound)) { return bound }
            state.used += amount
            for (_, key) in keys { state.byKey[key, default: 0] += amount }
            return nil
        }
        if let refusal { throw .quota(quota, refusal, retryAfterSeconds: retryAfterSeconds) }
    }

    package func give(_ amount: Int, by taker: Taker) {
        state.withLock { state in
            state.used -= amount
            for (_, key) in taker.keys {
                let left = (state.byKey[key] ?? 0) - amount
                // Entries with zero are removed.
                state.byKey[key] = left > 0 ? left : nil
            }
        }
    }

    /// Takes one. Throws `.quota`.
    package func lease(by taker: Taker) throws(RelayLogError) -> Lease {
        try take(1, by: taker)
        return Lease(self, taker)
    }

    /// Returns its unit when it is deallocated.
    package final class Lease: Sendable {
        private let shares: Shares
        private let taker: Taker

        fileprivate init(_ shares: Shares, _ taker: Taker) {
            self.shares = shares
            self.taker = taker
        }

        deinit { shares.give(1, by: taker) }
    }
}

/// A limited resource of the relay.
package enum Quota: String, Sendable, Hashable, CaseIterable {
    case bodyBytes = "body-bytes"
    case pendingPushes = "pending-pushes"
    case snapshotUploads = "snapshot-uploads"
    case eventStreams = "event-streams"
    case waits
    case parts
    case spaces
    case newSpaces = "new-spaces"
    case replicas
    case requests
    case failedLogins = "failed-logins"
}

/// The bound that was reached.
package enum QuotaBound: String, Sendable, Hashable, CaseIterable {
    case relay
    case token
    case space
    case address
}
