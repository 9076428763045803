internal import AnnalsCore
internal import AnnalsHTTP
internal import Foundation
internal import Logging
internal import RelayLog

/// An identity provider's keys, which the provider changes from time to time.
///
/// They are read at the start, every few hours, and when a token names an unknown key. The last happens at most once a
/// minute, because anyone can write a key's name into a token. If the keys cannot be read again, the old ones stay
/// valid.
actor KeySource {
    /// The keys with a number that rises at each read.
    struct Current: Sendable {
        var keys: KeySet
        var generation: Int
    }

    private let read: @Sendable () async throws -> [UInt8]
    private let clock: RelayClock
    private let logger: Logger
    private var current: Current?
    private var lastTry: Int64?
    private var lastSuccess: Int64?
    private var reading: Task<Void, Never>?

    static let shortestMilliseconds: Int64 = 60_000
    static let longestMilliseconds: Int64 = 6 * 3_600_000
    private static let largestBytes = 1 << 20
    private static let timeout: Duration = .seconds(10)

    init(clock: RelayClock = .system, logger: Logger, read: @escaping @Sendable () async throws -> [UInt8]) {
        self.clock = clock
        self.logger = logger
        self.read = read
    }

    init(_ settings: WebTokenSettings, clock: RelayClock = .system, logger: Logger) {
        let (place, isAddress) = (settings.keys, settings.isAddress)
        self.init(clock: clock, logger: logger) {
            if isAddress { return try await Self.fetch(place) }
            return Array(try Data(contentsOf: URL(fileURLWithPath: place)))
        }
    }

    /// Reads the keys for the first time.
    ///
    /// - Parameter isRequired: throws `AnnalsError` with `.configuration` on failure. False for a URL, which may be
    ///   unavailable for a while.
    func start(_ place: String, isRequired: Bool) async throws {
        do {
            try await readKeys()
        } catch {
            let reason = "the identity provider's keys cannot be read from \(place): \(Self.reason(error))"
            guard !isRequired else {
                throw AnnalsError(.configuration, operation: "relay", reason, hint: "Check jwt.keys", underlying: error)
            }
            logger.error("\(reason); web tokens are refused until the keys can be read")
        }
    }

    /// The keys for one lookup.
    struct Found: Sendable {
        /// nil if they could not be read yet.
        var current: Current?
        /// They were read for this lookup, so a missing key does not exist.
        var isFresh = false
        /// When they may be read again, in seconds.
        var retryAfterSeconds: Int
    }

    /// The keys; read again first if this one is missing.
    func keys(with id: String?) async -> Found {
        let lacks = current.map { current in id.map { !current.keys.has($0) } ?? false } ?? true
        if lacks { return await keysReadAnew() }
        let isOld = lastSuccess.map { clock.monotonic() - $0 >= Self.longestMilliseconds } ?? false
        if isOld { _ = readAgain() }
        return found(isFresh: false)
    }

    /// The keys, read again if that is allowed already: a new key may have replaced an old one.
    func keysReadAnew() async -> Found {
        let task = readAgain()
        await task?.value
        return found(isFresh: task != nil && lastSuccess == lastTry)
    }

    private func found(isFresh: Bool) -> Found {
        let due = (lastTry ?? clock.monotonic()) + Self.shortestMilliseconds
        return Found(current: current, isFresh: isFresh, retryAfterSeconds: max(1, Int((due - clock.monotonic() + 999) / 1000)))
    }

    /// Starts a read, or returns the one under way; nil if the last one was too recent.
    private func readAgain() -> Task<Void, Never>? {
        if let reading { return reading }
        if let lastTry, clock.monotonic() - lastTry < Self.shortestMilliseconds { return nil }
        let task = Task {
            do {
                try await readKeys()
            } catch {
                logger.warning("the identity provider's keys were not reloaded", metadata: ["reason": "\(Self.reason(error))"])
            }
            reading = nil
        }
        reading = task
        return task
    }

    private func readKeys() async throws {
        let start = clock.monotonic()
        lastTry = start
        let keys = try await KeySet(json: try await read())
        current = Current(keys: keys, generation: (current?.generation ?? 0) + 1)
        lastSuccess = start
    }

    private static func fetch(_ address: String) async throws -> [UInt8] {
        let client = try HTTPClient()
        do {
            let request = HTTPRequest(url: address, headers: [("Accept", "application/jwk-set+json, application/json")], timeout: timeout)
            let response = try await client.send(request, maximumBody: largestBytes)
            await client.shutdown()
            guard response.status == 200 else { throw KeySet.Unusable(description: "the server answered with status \(response.status)") }
            return response.body
        } catch {
            await client.shutdown()
            throw error
        }
    }

    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as HTTPError: error.message
        case let error as KeySet.Unusable: error.description
        case let error as CocoaError where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile: "there is no such file"
        case is CocoaError: "the file cannot be read"
        default: "\(type(of: error))"
        }
    }
}
