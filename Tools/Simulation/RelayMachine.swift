import AnnalsCore
import AnnalsTesting
import Foundation
import RelayLog

/// The relay's machine: a folder with the real log, and the process that serves it. The process can die and be started again, and
/// the folder can be restored from a backup.
final class RelayMachine {
    private(set) var relay: LocalRelay
    private(set) var power: RelayPower

    private let space: SpaceName
    private let clock: RelayClock
    private let limits: RelayLogLimits
    private let lineages: Identities
    private let path: String
    private var database: RelayDatabase
    private var starts = 0

    init(_ folder: SimulationFolder, space: SpaceName, clock: RelayClock, limits: RelayLogLimits, lineages: Identities) throws {
        (self.space, self.clock, self.limits, self.lineages) = (space, clock, limits, lineages)
        path = folder.file("relay")
        (relay, database, power) = try Self.serve(path + "-0", image: path + "-1", space, clock, limits, lineages)
    }

    private static func serve(
        _ folder: String, image: String, _ space: SpaceName, _ clock: RelayClock, _ limits: RelayLogLimits, _ lineages: Identities
    ) throws -> (LocalRelay, RelayDatabase, RelayPower) {
        let power = RelayPower(folder: folder, image: image)
        let database = try RelayDatabase(directory: folder, readers: limits.readers) { MortalDatabase(base: $0, power: power) }
        let log = try RelayLog(
            database: database, limits: limits, clock: clock, logger: LocalRelay.silence, freeBytes: { nil },
            lineage: { Lineage(high: lineages.next(), low: 1) })
        return (LocalRelay(log: log, space: space), database, power)
    }

    var isRunning: Bool { !power.isDead }

    /// Dies between two commits.
    func die() async throws {
        await relay.log.finishScheduled()
        try power.die()
    }

    /// Serves the data that the dead process left.
    func start() async throws {
        guard !isRunning else { return }
        try await serveNext()
    }

    func stop() async {
        await relay.log.close()
    }

    /// A backup of all data at one time, as `annals relay backup` makes it.
    func backUp() async throws -> String {
        await relay.log.finishScheduled()
        let backup = "\(path)-backup-\(starts)"
        if FileManager.default.fileExists(atPath: backup) { try FileManager.default.removeItem(atPath: backup) }
        _ = try RelayCopy.makeFolder(backup, from: database)
        return backup
    }

    /// Serves the backup.
    func restore(_ backup: String) async throws {
        let next = "\(path)-\(starts + 1)"
        if FileManager.default.fileExists(atPath: next) { try FileManager.default.removeItem(atPath: next) }
        try FileManager.default.copyItem(atPath: backup, toPath: next)
        try await serveNext()
    }

    private func serveNext() async throws {
        await relay.log.close()
        try FileManager.default.removeItem(atPath: power.folder)
        starts += 1
        (relay, database, power) = try Self.serve(
            "\(path)-\(starts)", image: "\(path)-\(starts + 1)", space, clock, limits, lineages)
    }
}
