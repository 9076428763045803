package import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import GRDB

/// Makes a relay's folder from a backup, after the backup was checked.
///
///     let report = try RelayRestore(backup: "/backup/monday", target: "relay-data").run(now: now, by: user)
///
/// The lineages stay the same, because every batch, signature and sealed snapshot names them. A replica that has seen
/// more than the backup has is refused with its first request, by the running digest of its log, and can then follow
/// (merge rule 41).
package struct RelayRestore: Sendable {
    /// A space of the backup.
    package struct Space: Sendable, Hashable {
        package var name: SpaceName
        package var lineage: Lineage
        package var head: Position
        package var horizon: Position
        /// When the newest entry arrived, in milliseconds since 1970; nil without entries.
        package var newest: Int64?
        package var snapshots = 0
        /// Positions of snapshots whose files are missing or corrupt. The restored relay does not use them.
        package var lostSnapshots: [Position] = []
        /// The entries of the replaced folder that the backup does not have; nil if that is not known.
        package var missing: Int64?
    }

    package struct Report: Sendable, Hashable {
        package var spaces: [Space] = []
        package var tokens: Int64 = 0
        /// Spaces of the replaced folder that the backup does not have.
        package var missingSpaces: [SpaceName] = []
        /// Where the replaced folder is now; nil if nothing was replaced.
        package var replaced: String?
        /// Whether root made the folder and could not give it to the user that serves it.
        package var belongsToRoot = false
    }

    private let backup: String
    private let target: String
    private let replaces: Bool

    private static let pieceBytes = 1 << 20

    /// - Parameter replaces: whether a relay's folder at the target is moved aside. Otherwise it is an error.
    package init(backup: String, target: String, replaces: Bool = false) {
        self.backup = backup
        self.target = target
        self.replaces = replaces
    }

    /// Blocks the caller's thread. The backup is only read. The folder appears when it is complete, checked and durable.
    ///
    /// - Parameters:
    ///   - now: milliseconds since 1970.
    ///   - by: who does it, for the audit log of the restored relay.
    ///   - progress: gets the copied bytes; an error that it throws ends the work.
    ///   - begin: gets the path of the temporary folder before it is created.
    /// - Throws: `AnnalsError`: `.fileNotFound`, `.notADatabase`, `.corruptBatch` if the backup is corrupt, `.newerFormat`,
    ///   `.cannotCreate` if the target exists, `.busy` if a relay serves one of the folders, `.diskFull`; `RelayLogError`.
    package func run(
        now: Int64, by: Operator, progress: (Int64) throws -> Void = { _ in }, begin: (String) -> Void = { _ in }
    ) throws -> Report {
        let (source, path) = (Self.resolved(backup), Self.resolved(target))
        guard FileManager.default.fileExists(atPath: source + "/relay.db") else {
            throw AnnalsError(
                .fileNotFound, operation: "relay", "\(backup) has no relay.db, so it is not a backup of a relay",
                hint: "Name the folder of the backup")
        }
        guard source != path else {
            throw AnnalsError(
                .usage, operation: "relay", "the backup and the folder to restore are the same", hint: "Name another folder to restore")
        }
        let isReplaced = try requireFree(path)
        // A relay that serves one of the folders would change it meanwhile.
        let locks = try (isReplaced ? [source, path] : [source]).compactMap(Self.lock)
        defer { withExtendedLifetime(locks) {} }
        let old = isReplaced ? Self.heads(in: path) : nil
        let partial = "\(path).partial-\(Self.randomText())"
        begin(partial)
        do {
            try copyFiles(source, partial, progress)
            try checkFile(partial + "/relay.db")
            var report = try check(partial, now: now, by: by)
            report.note(old)
            report.belongsToRoot = !DurableFiles.give(partial, toOwnerOf: Self.owned(path, isReplaced, source))
            if isReplaced { report.replaced = try Self.moveAside(path) }
            do {
                try DurableFiles.rename(partial, to: path)
            } catch {
                if let replaced = report.replaced { try? DurableFiles.rename(replaced, to: path) }
                throw error
            }
            let parent = DurableFiles.parent(of: path)
            try DurableFiles.synchronizeDirectory(parent.isEmpty ? "." : parent)
            return report
        } catch {
            try? FileManager.default.removeItem(atPath: partial)
            throw error is AnnalsError || error is CancellationError ? error : RelayLogError.wrapping(error)
        }
    }

    // MARK: The folders

    /// Without symbolic links, because a service manager may have made the folder a link to another place.
    private static func resolved(_ path: String) -> String {
        URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }

    private static func randomText() -> String { String(UInt32.random(in: 0 ... .max), radix: 36) }

    /// Whether there is a relay's folder to move aside. An empty folder is no obstacle.
    private func requireFree(_ path: String) throws -> Bool {
        guard FileManager.default.fileExists(atPath: path) else { return false }
        guard let contents = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw AnnalsError(.cannotCreate, operation: "relay", "\(target) is not a folder", hint: "Name another place")
        }
        if contents.isEmpty { return false }
        guard contents.contains("relay.db") else {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "\(target) exists and is not a relay's folder",
                hint: "Name a folder that does not exist")
        }
        guard replaces else {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "\(target) already holds the data of a relay",
                hint: "Name a folder that does not exist",
                commandHint: "Name another folder, or add --force: the old folder then stays beside it under another name")
        }
        return true
    }

    /// nil if the folder was never served. A backup may be on a disk that cannot be written.
    private static func lock(_ folder: String) throws -> DirectoryLock? {
        guard FileManager.default.fileExists(atPath: folder + "/relay.lock") else { return nil }
        return try RelayDatabase.lock(folder)
    }

    /// The file or folder whose owner the new folder gets.
    private static func owned(_ path: String, _ isReplaced: Bool, _ source: String) -> String {
        if isReplaced { return path + "/relay.db" }
        return FileManager.default.fileExists(atPath: path) ? path : source + "/relay.db"
    }

    private static func moveAside(_ path: String) throws -> String {
        let other = "\(path).replaced-\(randomText())"
        try DurableFiles.rename(path, to: other)
        return other
    }

    private func copyFiles(_ source: String, _ partial: String, _ progress: (Int64) throws -> Void) throws {
        let files = FileManager.default
        let snapshots = ((try? files.contentsOfDirectory(atPath: source + "/snapshots")) ?? []).filter {
            !$0.hasPrefix(LocalSnapshotFiles.temporaryPrefix)
        }
        let names =
            ["relay.db"] + ["relay.db-wal"].filter { files.fileExists(atPath: "\(source)/\($0)") } + snapshots.map { "snapshots/\($0)" }
        let bytes = try names.reduce(Int64(0)) { sum, name in
            sum + ((try files.attributesOfItem(atPath: "\(source)/\(name)")[.size] as? Int64) ?? 0)
        }
        let reserve = RelayLogLimits().diskReserveBytes
        let parent = DurableFiles.parent(of: partial)
        if let free = DiskReserve.freeBytes(at: parent.isEmpty ? "." : parent), free - bytes <= reserve {
            throw AnnalsError(
                .diskFull, operation: "relay",
                "the backup has \(bytes) bytes, and the disk has \(free) free, of which a relay keeps \(reserve)",
                hint: "Make room on the disk. Nothing was changed")
        }
        try DurableFiles.createDirectory(partial + "/snapshots")
        var done: Int64 = 0
        for name in names {
            let from = try DurableFile(reading: "\(source)/\(name)")
            let to = try DurableFile(creating: "\(partial)/\(name)")
            var offset: Int64 = 0
            while true {
                let piece = try from.read(at: offset, count: Self.pieceBytes)
                guard !piece.isEmpty else { break }
                try piece.withUnsafeBytes { try to.write($0) }
                offset += Int64(piece.count)
                done += Int64(piece.count)
                try progress(done)
            }
            try to.synchronize()
            from.close()
            to.close()
        }
        for folder in ["/snapshots", ""] { try DurableFiles.synchronizeDirectory(partial + folder) }
    }

    // MARK: Checks

    private func corrupt(_ what: String, underlying: (any Error)? = nil) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "relay", "the backup \(backup) is corrupt: \(what)",
            hint: "Nothing was restored. Use another backup", underlying: underlying)
    }

    /// Checks the file before anything is written to it.
    private func checkFile(_ path: String) throws {
        do {
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            let (isRelay, found, isWhole) = try queue.read { db in
                (
                    try db.tableExists("annals_spaces"), try String.fetchOne(db, sql: "PRAGMA integrity_check(1)"),
                    try Row.fetchOne(db, sql: "PRAGMA foreign_key_check") == nil
                )
            }
            guard isRelay else {
                throw AnnalsError(
                    .notADatabase, operation: "relay", "\(backup)/relay.db is not a relay's database", hint: "Name the folder of the backup"
                )
            }
            guard found == "ok" else { throw corrupt("the check of relay.db found: \(found ?? "nothing")") }
            guard isWhole else { throw corrupt("rows of relay.db refer to rows that do not exist") }
        } catch let error as DatabaseError {
            throw corrupt("relay.db cannot be read: \(RelayDatabase.reason(of: error))", underlying: error)
        }
    }

    /// Checks the logs and the snapshots, and adds a line for each space to the audit log.
    private func check(_ partial: String, now: Int64, by: Operator) throws -> Report {
        let database = try RelayDatabase(directory: partial)
        do {
            // The backup itself still has the older format.
            if let copy = database.keptCopy { DurableFiles.remove(copy) }
            var report = Report()
            (report.spaces, report.tokens) = try database.storage.readNow { db in
                let spaces = try LogStorage.names(in: db).map { try space($0, database.snapshots, db) }
                return (spaces, try db.integer("SELECT count(*) FROM annals_tokens", []) ?? 0)
            }
            let spaces = report.spaces
            try database.storage.writeNow { db in
                for space in spaces {
                    let entry = AuditEntry(.relayRestore, by: by, space: space.name, at: now)
                    let subject = "head \(space.head) from \(backup.prefix(AuditEntry.placeCharacters))"
                    try AuditStorage.add(entry, subject: subject, outcome: AuditEntry.done, in: db)
                }
            }
            try database.close()
            return report
        } catch {
            try? database.close()
            throw error
        }
    }

    /// Computes the running digest of a log again, entry by entry.
    private func space(_ name: SpaceName, _ files: any SnapshotFiles, _ db: any LogConnection) throws -> Space {
        guard let found = try LogStorage.space(name, in: db) else { throw corrupt("the space \(name) cannot be read") }
        var space = Space(name: name, lineage: found.lineage, head: found.head, horizon: found.horizon)
        var (position, digest) = try RunningDigests.atHorizon(of: found.id, in: db)
        for first in try LogStorage.positions(of: found.id, in: db) {
            guard let head = try LogStorage.run(of: found.id, at: first, in: db), head.firstPosition == first else {
                throw corrupt("the log of the space \(name) cannot be read at position \(first)")
            }
            // The first run may begin before the horizon.
            guard head.lastPosition > position else { continue }
            let skipped = position.rawValue - first.rawValue + 1
            guard skipped >= 0 else { throw corrupt("entries of the space \(name) are missing before position \(first)") }
            let run: LogStorage.Run
            let header: BatchHeader
            do {
                run = try head.read(db)
                header = try run.header()
            } catch {
                throw corrupt("the batch of the space \(name) at position \(first) cannot be read", underlying: error)
            }
            let certificates = header.certificates[run.firstIndex...].prefix(run.count).dropFirst(Int(skipped))
            digest = certificates.reduce(digest) { $0.following($1.digest) }
            guard head.logDigest == digest else { throw corrupt("the log of the space \(name) has another digest at position \(first)") }
            (position, space.newest) = (head.lastPosition, run.received)
        }
        guard position == found.head else { throw corrupt("entries of the space \(name) are missing after position \(position)") }
        for snapshot in try LogStorage.snapshots(of: found.id, in: db) {
            if Self.isWhole(snapshot, files) {
                space.snapshots += 1
            } else {
                space.lostSnapshots.append(snapshot.position)
                // Without its file the relay does not use it.
                if !snapshot.file.contains("/") { files.remove(snapshot.file) }
            }
        }
        return space
    }

    private static func isWhole(_ snapshot: SnapshotRecord, _ files: any SnapshotFiles) -> Bool {
        guard !snapshot.file.contains("/"), let file = try? files.open(snapshot.file) else { return false }
        var hasher = Digest.Hasher()
        var offset: Int64 = 0
        while let piece = try? file.read(at: offset, count: pieceBytes), !piece.isEmpty {
            hasher.update(piece[...])
            offset += Int64(piece.count)
        }
        return offset == snapshot.byteCount && hasher.finish() == snapshot.digest
    }

    // MARK: What is missing

    fileprivate typealias Heads = [SpaceName: (lineage: Lineage, head: Position)]

    /// The heads of the folder that is replaced; nil if they cannot be read.
    private static func heads(in folder: String) -> Heads? {
        var configuration = Configuration()
        configuration.readonly = true
        guard let queue = try? DatabaseQueue(path: folder + "/relay.db", configuration: configuration) else { return nil }
        defer { try? queue.close() }
        return try? queue.read { db in
            var heads: Heads = [:]
            for row in try SQLiteConnection(db: db).rows("SELECT name, lineage, head FROM annals_spaces", []) {
                guard let name = SpaceName(try row.text(0)), let lineage = Lineage(bytes: try row.bytes(1)) else { continue }
                heads[name] = (lineage, try row.position(2))
            }
            return heads
        }
    }
}

extension RelayRestore.Report {
    /// Compares the backup with the folder that it replaces.
    fileprivate mutating func note(_ old: RelayRestore.Heads?) {
        guard let old else { return }
        for index in spaces.indices {
            let known = old[spaces[index].name]
            let isSame = known?.lineage == spaces[index].lineage
            let head = known?.head.rawValue ?? 0
            spaces[index].missing = isSame ? max(0, head - spaces[index].head.rawValue) : head
        }
        let restored = Set(spaces.map(\.name))
        missingSpaces = old.keys.filter { !restored.contains($0) }.sorted { $0.description < $1.description }
    }
}
