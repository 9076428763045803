import AnnalsCore
import Foundation
import RelayLog
import Synchronization

/// Ends the relay's process at a commit: before it, within its bytes, or after it and before its answer is sent.
///
/// The folder is copied at that moment, and the next process uses the copy. The dead process continues for a while, as code after an
/// error does. It cannot commit, and its writes to its folder have no effect.
final class RelayPower: Sendable {
    struct Cut: Error {}

    private struct State {
        var isDead = false
        /// The number of commits until the process dies, and the point in the last one.
        var countdown: (commits: Int, point: RelayCrash.Point)?

        /// Returns false if the process was dead already.
        mutating func die() -> Bool {
            defer { (isDead, countdown) = (true, nil) }
            return !isDead
        }
    }

    /// The served folder, and the folder for its copy.
    let folder: String
    private let image: String
    private let state = Mutex(State())

    init(folder: String, image: String) {
        self.folder = folder
        self.image = image
    }

    var isDead: Bool { state.withLock { $0.isDead } }

    func die(at crash: RelayCrash) {
        state.withLock { $0.countdown = (max(1, crash.commits), crash.point) }
    }

    /// Cancels the planned death.
    func spare() {
        state.withLock { $0.countdown = nil }
    }

    /// Dies now, between two commits.
    func die() throws {
        guard state.withLock({ $0.die() }) else { return }
        try copyFolder()
    }

    /// The point in this commit at which the process dies; nil if it does not. Throws if it is dead.
    fileprivate func nextCommit() throws -> RelayCrash.Point? {
        try state.withLock { state in
            if state.isDead { throw Cut() }
            guard let (commits, point) = state.countdown else { return nil }
            state.countdown = commits > 1 ? (commits - 1, point) : nil
            return commits > 1 ? nil : point
        }
    }

    /// - Parameter log: the write-ahead log before the commit; some of the new bytes are written on it.
    fileprivate func die(within log: Data?, thousandths: Int) throws {
        guard state.withLock({ $0.die() }) else { return }
        try copyFolder()
        guard let log else { return }
        let name = image + "/relay.db-wal"
        let after = FileManager.default.contents(atPath: name) ?? Data()
        let first = zip(log, after).prefix { $0 == $1 }.count
        let end = first + (after.count - first) * thousandths / 1_000
        try (after.prefix(end) + log.dropFirst(end)).write(to: URL(fileURLWithPath: name))
    }

    fileprivate var writeAheadLog: Data { FileManager.default.contents(atPath: folder + "/relay.db-wal") ?? Data() }

    /// Copies all files that a new process would find. SQLite's shared memory and the lock are not copied, because they end with the
    /// old process.
    private func copyFolder() throws {
        try FileManager.default.createDirectory(atPath: image, withIntermediateDirectories: true)
        for name in ["relay.db", "relay.db-wal", "snapshots"] where FileManager.default.fileExists(atPath: "\(folder)/\(name)") {
            try FileManager.default.copyItem(atPath: "\(folder)/\(name)", toPath: "\(image)/\(name)")
        }
    }
}

/// The relay's storage in a process that may die at a commit.
struct MortalDatabase: LogDatabase {
    let base: any LogDatabase
    let power: RelayPower

    func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        if power.isDead { throw RelayPower.Cut() }
        return try await base.read(body)
    }

    func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T { try base.readNow(body) }

    func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        let point = try power.nextCommit()
        let before = power.writeAheadLog(point)
        let result = try await base.write { db in
            let result = try body(db)
            try power.dieBefore(point)
            return result
        }
        try power.dieAfter(point, before)
        return result
    }

    func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T { try base.writeNow(body) }

    func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) {
        base.schedule { db in body(MortalConnection(base: db, power: power)) }
    }

    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) { base.listen(visit) }

    func byteCount() async throws -> Int64 { try await base.byteCount() }

    func close() throws { try base.close() }
}

private struct MortalConnection: LogConnection {
    let base: any LogConnection
    let power: RelayPower

    var lockingClause: String { base.lockingClause }

    func execute(_ sql: String, _ arguments: [any Storable]) throws { try base.execute(sql, arguments) }

    func rows(_ sql: String, _ arguments: [any Storable]) throws -> [LogRow] { try base.rows(sql, arguments) }

    func announce(_ head: Position, of space: SpaceName) throws { try base.announce(head, of: space) }

    func continueNumbering(_ column: String, of table: String, after last: Int64) throws {
        try base.continueNumbering(column, of: table, after: last)
    }

    func transaction<T>(_ body: () throws -> T) throws -> T {
        let point = try power.nextCommit()
        let before = power.writeAheadLog(point)
        let result = try base.transaction {
            let result = try body()
            try power.dieBefore(point)
            return result
        }
        try power.dieAfter(point, before)
        return result
    }
}

extension RelayPower {
    fileprivate func writeAheadLog(_ point: RelayCrash.Point?) -> Data? {
        if case .within = point { writeAheadLog } else { nil }
    }

    fileprivate func dieBefore(_ point: RelayCrash.Point?) throws {
        guard point == .before else { return }
        try die()
        throw Cut()
    }

    fileprivate func dieAfter(_ point: RelayCrash.Point?, _ log: Data?) throws {
        switch point {
        case .after: try die()
        case .within(let thousandths): try die(within: log, thousandths: thousandths)
        case .before, .now, nil: return
        }
        throw Cut()
    }
}
