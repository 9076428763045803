internal import AnnalsCore
internal import Foundation
internal import RelayLog
internal import Synchronization

/// Values that are read at each scrape instead of being counted.
final class Readings: Sendable {
    private typealias Name = MetricCatalogue.Name

    let log: RelayLog
    private let readiness: Readiness
    private let identities: TLSIdentities?
    private let silence: Int64
    private let known = Mutex<(usage: RelayUsage, at: ContinuousClock.Instant)?>(nil)

    init(log: RelayLog, readiness: Readiness, identities: TLSIdentities?, silence: Int64) {
        self.log = log
        self.readiness = readiness
        self.identities = identities
        self.silence = silence
        _ = Self.started
    }

    /// All readings; those of a storage that does not answer are omitted.
    func samples() async -> [Sample] {
        var samples = process() + [Sample(Name.watchers, Double(log.waiterCount))]
        if let free = log.reserve.freeBytes { samples.append(Sample(Name.diskFree, Double(free))) }
        if let identities {
            samples.append(Sample(Name.certificateExpiry, Double(identities.expires)))
            samples.append(Sample(Name.certificateFailures, Double(identities.failureCount)))
        }
        // Both at the same time, because each waits for a storage that does not answer.
        async let isReady = (try? await readiness.check()) != nil
        async let usage = usage()
        samples.append(Sample(Name.ready, await isReady ? 1 : 0))
        if let usage = await usage { samples += Self.samples(of: usage) }
        return samples
    }

    private func usage() async -> RelayUsage? {
        let now = ContinuousClock.now
        if let known = known.withLock({ $0 }), now - known.at < .seconds(MetricLimits.readingSeconds) { return known.usage }
        guard let usage = try? await log.usage(spaces: MetricLimits.spaces, replicas: MetricLimits.replicas, silence: silence) else {
            return nil
        }
        known.withLock { $0 = (usage, now) }
        return usage
    }

    private static func samples(of usage: RelayUsage) -> [Sample] {
        var samples = [
            Sample(Name.spaces, Double(usage.spaceCount)), Sample(Name.replicas, Double(usage.replicaCount)),
            Sample(Name.storageBytes, Double(usage.databaseBytes), [("part", "database")]),
            Sample(Name.storageBytes, Double(usage.snapshotBytes), [("part", "snapshots")]),
            Sample(Name.backup, Double(usage.lastBackup ?? 0) / 1000),
        ]
        for space in usage.spaces {
            let labels = [("space", space.space.description)]
            samples.append(Sample(Name.spaceHead, Double(space.head.rawValue), labels))
            samples.append(Sample(Name.spaceHorizon, Double(space.horizon.rawValue), labels))
            samples.append(Sample(Name.spaceWrittenBytes, Double(space.writtenBytes), labels))
            samples.append(Sample(Name.spaceReported, Double(space.reportedEntries), labels))
            if let position = space.snapshotPosition {
                samples.append(Sample(Name.spaceSnapshotPosition, Double(position.rawValue), labels))
            }
        }
        for replica in usage.replicas {
            let labels = [("space", replica.space.description), ("replica", replica.replica.description)]
            samples.append(Sample(Name.replicaLag, Double(replica.lag), labels))
            samples.append(Sample(Name.replicaSeen, Double(replica.lastSeen) / 1000, labels))
        }
        return samples
    }

    // MARK: The process

    private static let started = Date().timeIntervalSince1970.rounded()

    private func process() -> [Sample] {
        var samples = [Sample(Name.started, Self.started)]
        #if os(Linux)
            // The second number is the resident memory in pages.
            let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ").compactMap { Int($0) }
            if let pages, pages.count > 1 { samples.append(Sample(Name.residentBytes, Double(pages[1] * sysconf(Int32(_SC_PAGESIZE))))) }
            if let files = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
                samples.append(Sample(Name.openFiles, Double(files.count)))
            }
        #endif
        return samples
    }
}
