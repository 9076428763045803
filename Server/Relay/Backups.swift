internal import AnnalsCore
internal import Dispatch
internal import Foundation
internal import Logging
internal import RelayLog
internal import Synchronization

/// The rules of the backups that a relay makes by itself.
package struct BackupRules: Sendable, Hashable {
    /// The folder that gets a folder for each backup; empty for no backups.
    package var folder = ""
    /// The milliseconds from one backup to the next.
    package var every: Int64 = 86_400_000
    /// How many of these backups are kept. Older ones are deleted.
    package var keep = 7

    /// A shorter interval would make backups without a pause.
    static let shortest: Int64 = 60_000
    static let longest: Int64 = 365 * 86_400_000
}

/// Makes a backup of the relay's data at intervals, and deletes old ones.
///
/// Each is a folder such as `annals-relay-2026-11-28T031500Z`, as `annals relay backup` makes it. Its name says when the next one is
/// due, so a restart of the relay makes no additional backup. The folder must not be that of another relay.
struct Backups: Sendable {
    let rules: BackupRules
    /// The size of the relay's data in bytes.
    let bytesOfData: @Sendable () async throws -> Int64
    /// Opens the relay's data for one backup.
    let open: @Sendable () throws -> RelayDatabase
    /// Bytes of the backups' disk that stay free.
    let reserveBytes: Int64
    let logger: Logger
    var metrics = RelayMetrics()
    var now: @Sendable () -> Int64 = RelayClock.system.wall
    var pause: @Sendable (_ milliseconds: Int64) async throws -> Void = { try await ContinuousClock().sleep(for: .milliseconds($0)) }

    private static let prefix = "annals-relay-"
    /// The longest pause, so that a corrected clock has an effect soon.
    private static let longestPause: Int64 = 3_600_000
    /// The pause after a backup that failed.
    private static let retryPause: Int64 = 900_000
    /// A backup that was not completed for this long belongs to a process that died.
    private static let abandonedAfter: Int64 = 86_400_000
    /// How many bytes are copied between two looks at the free bytes of the disk.
    private static let bytesBetweenLooks: Int64 = 64 << 20

    /// Runs until the task is cancelled.
    func run() async throws {
        while true { try await pause(round()) }
    }

    /// Makes a backup if one is due. Returns the milliseconds until the next look.
    private func round() async throws -> Int64 {
        do {
            let began = now()
            try deleteAbandoned()
            if let newest = try names().compactMap(Self.time).filter({ $0 <= began }).max(), newest + rules.every > began {
                return min(newest + rules.every - began, Self.longestPause)
            }
            let path = "\(rules.folder)/\(Self.name(at: began))"
            let report = try await make(path, began)
            logger.notice("a backup was made", metadata: ["folder": "\(path)", "bytes": "\(report.bytes)", "spaces": "\(report.spaces)"])
            deleteOld(at: began)
            return min(rules.every, Self.longestPause)
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            metrics.noteFailedBackup()
            logger.error("the backup failed", metadata: ["folder": "\(rules.folder)", "reason": "\(error)"])
            return min(rules.every, Self.retryPause)
        }
    }

    // MARK: A backup

    /// The copy blocks its thread, so it has one of its own.
    private func make(_ path: String, _ began: Int64) async throws -> RelayCopy.Report {
        try checkDisk(for: 2 * (await bytesOfData()))
        let isCancelled = Atomic(false)
        let source = try open()
        defer { try? source.close() }
        let report = try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<RelayCopy.Report, any Error>) in
                DispatchQueue.global(qos: .utility).async {
                    let looked = Atomic<Int64>(0)
                    continuation.resume(
                        with: Result {
                            try RelayCopy.makeFolder(path, from: source) { bytes in
                                if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
                                guard bytes - looked.load(ordering: .relaxed) >= Self.bytesBetweenLooks else { return }
                                looked.store(bytes, ordering: .relaxed)
                                // SQLite writes the log once more at the end.
                                try checkDisk(for: bytes)
                            }
                        })
                }
            }
        } onCancel: {
            isCancelled.store(true, ordering: .relaxed)
        }
        do {
            try await source.noteBackup(to: path, at: began, by: .automatic)
        } catch {
            // The backup is good; only its age is not known to the metrics.
            logger.warning("the time of the backup could not be recorded", metadata: ["folder": "\(path)", "reason": "\(error)"])
        }
        return report
    }

    /// - Parameter bytes: what will be written.
    private func checkDisk(for bytes: Int64) throws {
        guard let free = DiskReserve.freeBytes(at: rules.folder) else {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "the folder \(rules.folder) cannot be used", hint: "Create it, and give it to the relay")
        }
        if free - reserveBytes <= bytes { throw RelayLogError.diskReserved(bytes: reserveBytes) }
    }

    // MARK: The folder

    /// Of complete backups that a relay made by itself.
    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: rules.folder).filter { Self.time($0) != nil }.sorted()
    }

    /// Backups with a later time, from a clock that was ahead, do not count and stay.
    private func deleteOld(at moment: Int64) {
        do {
            for name in try names().filter({ Self.time($0).map { $0 <= moment } ?? false }).dropLast(rules.keep) {
                try FileManager.default.removeItem(atPath: "\(rules.folder)/\(name)")
                logger.notice("an old backup was deleted", metadata: ["folder": "\(rules.folder)/\(name)"])
            }
        } catch {
            logger.warning("an old backup could not be deleted", metadata: ["folder": "\(rules.folder)", "reason": "\(error)"])
        }
    }

    /// Of processes that died, at the beginning, because they may have filled the disk.
    private func deleteAbandoned() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: rules.folder) where name.contains(".partial-") {
            guard let began = Self.time(String(name.prefix { $0 != "." })), began + Self.abandonedAfter < now() else { continue }
            try FileManager.default.removeItem(atPath: "\(rules.folder)/\(name)")
        }
    }

    private static func name(at milliseconds: Int64) -> String {
        let text = Date(timeIntervalSince1970: Double(milliseconds / 1000)).formatted(.iso8601)
        return prefix + text.replacing(":", with: "")
    }

    /// The time in a backup's name, in milliseconds since 1970; nil for the name of anything else.
    private static func time(_ name: String) -> Int64? {
        guard let match = name.wholeMatch(of: /annals-relay-(\d{4}-\d\d-\d\dT)(\d\d)(\d\d)(\d\d)Z/) else { return nil }
        let text = "\(match.1)\(match.2):\(match.3):\(match.4)Z"
        return try? Int64(Date(text, strategy: .iso8601).timeIntervalSince1970) * 1000
    }
}
