internal import AnnalsCore
internal import Foundation

/// Copies all data of a relay into an empty database, in a directory or PostgreSQL. It reads one consistent state of
/// the source, which can be served meanwhile.
///
///     let report = try RelayCopy(source: folder, target: postgres).run()
///
/// The copy becomes visible when it is complete. Lineages, digests and tokens are the same, so replicas continue with
/// either relay. If both are served, two logs have one name; replicas detect that and refuse it.
package struct RelayCopy: Sendable {
    package struct Report: Sendable, Hashable {
        package var spaces: Int64 = 0
        package var positions: Int64 = 0
        package var snapshots: Int64 = 0
        package var tokens: Int64 = 0
        /// Bytes of batches and snapshots.
        package var bytes: Int64 = 0
        /// Whether root made the folder and could not give it to the user that serves the source.
        package var belongsToRoot = false
    }

    package let source: RelayDatabase
    package let target: RelayDatabase

    /// Bytes of log that are read and written at a time; at least one row.
    private static let pageBytes: Int64 = 8 << 20
    private static let pieceBytes = 1 << 20

    package init(source: RelayDatabase, target: RelayDatabase) {
        self.source = source
        self.target = target
    }

    /// Blocks the caller's thread.
    ///
    /// - Parameter progress: gets the copied bytes of batches and snapshots; an error that it throws ends the copy.
    /// - Throws: `AnnalsError`: `.cannotCreate` if the target holds spaces or tokens, `.busy` if a snapshot cannot be
    ///   read, `.corruptBatch` if the bytes of a snapshot are corrupt; `RelayLogError`.
    package func run(progress: @escaping @Sendable (Int64) throws -> Void = { _ in }) throws -> Report {
        var made: Report?
        func copyOnce(_ from: any LogConnection, _ to: any LogConnection) throws -> Report {
            // If the connection was lost during the commit, this runs again. The commit succeeded if the target holds
            // the copied data.
            if let made, try Self.holdsCopy(to, of: from) { return made }
            let report = try copy(from, to, progress)
            made = report
            return report
        }
        do {
            // A database in a folder runs on its own queue, so it must be the inner call.
            if source.isShared {
                return try source.storage.readNow { from in try target.storage.writeNow { to in try copyOnce(from, to) } }
            }
            return try target.storage.writeNow { to in try source.storage.readNow { from in try copyOnce(from, to) } }
        } catch let error as AnnalsError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw RelayLogError.wrapping(error)
        }
    }

    private func copy(
        _ from: any LogConnection, _ to: any LogConnection, _ progress: @Sendable (Int64) throws -> Void
    ) throws -> Report {
        try Self.requireEmpty(to)
        var report = Report()
        // Opened before the log is copied, which can take long: an open file stays readable when a running relay drops
        // the snapshot.
        var snapshots = try openSnapshots(from)
        for table in RelayTable.all { try copy(table, from, to, &snapshots, &report, progress) }
        report.spaces = try from.integer("SELECT count(*) FROM annals_spaces", []) ?? 0
        report.tokens = try from.integer("SELECT count(*) FROM annals_tokens", []) ?? 0
        report.positions = try from.integer("SELECT CAST(coalesce(sum(head - horizon), 0) AS BIGINT) FROM annals_spaces", []) ?? 0
        return report
    }

    /// Whether the spaces and tokens of the target are those of the source.
    private static func holdsCopy(_ to: any LogConnection, of from: any LogConnection) throws -> Bool {
        try ["SELECT id, lineage FROM annals_spaces ORDER BY id", "SELECT id, hash FROM annals_tokens ORDER BY id"].allSatisfy {
            try to.rows($0, []).map(\.values) == from.rows($0, []).map(\.values)
        }
    }

    private static func requireEmpty(_ db: any LogConnection) throws {
        for name in ["annals_spaces", "annals_tokens"] where try db.row("SELECT 1 FROM \(name) LIMIT 1", []) != nil {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "the target already holds the data of a relay",
                hint: "Use an empty database, or set its search path to another schema")
        }
    }

    private func copy(
        _ table: RelayTable, _ from: any LogConnection, _ to: any LogConnection, _ snapshots: inout Snapshots, _ report: inout Report,
        _ progress: (Int64) throws -> Void
    ) throws {
        switch table.name {
        case RelayTable.runs.name, RelayTable.parts.name:
            for space in try from.rows("SELECT id FROM annals_spaces ORDER BY id", []) {
                let space = try space.integer(0)
                if table.name == RelayTable.runs.name {
                    try copyRuns(of: space, from, to, &report, progress)
                } else {
                    try copyParts(of: space, from, to, &report, progress)
                }
            }
        case RelayTable.snapshots.name:
            try copySnapshots(table, &snapshots, to, &report, progress)
        default:
            let rows = try from.rows("\(table.selection) ORDER BY 1, 2", [])
            for row in rows { try to.execute(table.insertion, row.values) }
            if let number = table.number, let last = try rows.last?.integer(0) {
                try to.continueNumbering(number, of: table.name, after: last)
            }
        }
    }

    private func copyRuns(
        of space: Int64, _ from: any LogConnection, _ to: any LogConnection, _ report: inout Report, _ progress: (Int64) throws -> Void
    ) throws {
        var last: Int64 = 0
        while true {
            let sizes = try from.rows(
                "SELECT position, length(batch) FROM annals_runs WHERE space = ?1 AND position > ?2 ORDER BY position LIMIT 1000",
                [space, last])
            guard !sizes.isEmpty else { return }
            var rest = sizes[...]
            while let first = rest.first {
                var bytes: Int64 = 0
                var end = try first.integer(0)
                repeat {
                    let row = rest.removeFirst()
                    end = try row.integer(0)
                    bytes += try row.number(1)
                } while try rest.first.map { try bytes + $0.number(1) <= Self.pageBytes } ?? false
                let page = try from.rows(
                    "\(RelayTable.runs.selection) WHERE space = ?1 AND position > ?2 AND position <= ?3 ORDER BY position",
                    [space, last, end])
                try insert(page, RelayTable.runs, to)
                last = end
                report.bytes += bytes
                try progress(report.bytes)
            }
        }
    }

    private func copyParts(
        of space: Int64, _ from: any LogConnection, _ to: any LogConnection, _ report: inout Report, _ progress: (Int64) throws -> Void
    ) throws {
        let table = RelayTable.parts
        for key in try from.rows("SELECT replica, part, length(batch) FROM annals_parts WHERE space = ?1 ORDER BY replica, part", [space]) {
            let rows = try from.rows(
                "\(table.selection) WHERE space = ?1 AND replica = ?2 AND part = ?3", [space, key.values[0], key.values[1]])
            try insert(rows, table, to)
            report.bytes += try key.number(2)
            try progress(report.bytes)
        }
    }

    /// Waits until the rows are sent, so that no more than one page is in memory.
    private func insert(_ rows: [LogRow], _ table: RelayTable, _ to: any LogConnection) throws {
        for row in rows { try to.execute(table.insertion, row.values) }
        _ = try to.rows("SELECT 1", [])
    }

    /// Snapshot records with their open files, in the order of copying.
    private typealias Snapshots = [(row: LogRow, file: any SnapshotBytes)]

    private func openSnapshots(_ from: any LogConnection) throws -> Snapshots {
        try from.rows("\(RelayTable.snapshots.selection) ORDER BY space, position", []).map { row in
            let name = try row.text(4)
            do {
                return (row, try source.snapshots.open(name, in: from))
            } catch {
                throw AnnalsError(
                    .busy, operation: "relay", "the snapshot \(name) is missing or cannot be read: \(RelayDatabase.reason(of: error))",
                    hint:
                        "A running relay may have dropped it: run this again. If it is lost, a replica uploads another at its next sync",
                    isRetryable: true, underlying: error)
            }
        }
    }

    /// Copies each file before its record, so that a recorded snapshot is always complete.
    private func copySnapshots(
        _ table: RelayTable, _ snapshots: inout Snapshots, _ to: any LogConnection, _ report: inout Report,
        _ progress: (Int64) throws -> Void
    ) throws {
        let there = Set(try target.snapshots.names())
        snapshots.reverse()
        // Each file is closed after its copy.
        while let (row, file) = snapshots.popLast() {
            let (count, name) = (try row.number(2), try row.text(4))
            if !there.contains(name) {
                let before = report.bytes
                try copy(file, count, name, row.digest(3)) { try progress(before + $0) }
            }
            try to.execute(table.insertion, row.values)
            report.bytes += count
            report.snapshots += 1
        }
    }

    private func copy(
        _ file: any SnapshotBytes, _ count: Int64, _ name: String, _ digest: Digest, _ progress: (Int64) throws -> Void
    ) throws {
        let new = try target.snapshots.create()
        do {
            var hasher = Digest.Hasher()
            var offset: Int64 = 0
            while offset < count {
                let piece = try file.read(at: offset, count: Int(min(Int64(Self.pieceBytes), count - offset)))
                guard !piece.isEmpty else { break }
                hasher.update(piece[...])
                try new.write(piece)
                offset += Int64(piece.count)
                try progress(offset)
            }
            guard hasher.finish() == digest else {
                throw AnnalsError(
                    .corruptBatch, operation: "relay", "the snapshot \(name) is corrupt: its bytes do not match its digest",
                    hint: "Nothing was copied. Remove the snapshot's file: a replica uploads another at its next sync")
            }
            try new.keep(as: name)
        } catch {
            new.abandon()
            throw error
        }
    }
}

extension RelayCopy {
    /// Copies into a new folder, which appears when the copy is complete and durable. If root does it, the folder belongs
    /// to the owner of the source's folder.
    ///
    /// Blocks the caller's thread. Throws what `run` throws, and `AnnalsError.cannotCreate` if the path exists.
    ///
    /// - Parameter begin: gets the path of the temporary folder before it is created.
    package static func makeFolder(
        _ path: String, from source: RelayDatabase, progress: @escaping @Sendable (Int64) throws -> Void = { _ in },
        begin: (String) -> Void = { _ in }
    ) throws -> Report {
        guard !FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.cannotCreate, operation: "relay", "\(path) already exists", hint: "Name a folder that does not exist")
        }
        let partial = "\(path).partial-\(String(UInt32.random(in: 0 ... .max), radix: 36))"
        begin(partial)
        do {
            let target = try RelayDatabase(directory: partial)
            var report: Report
            do {
                report = try RelayCopy(source: source, target: target).run(progress: progress)
            } catch {
                try? target.close()
                throw error
            }
            try target.close()
            report.belongsToRoot = !(source.file.map { DurableFiles.give(partial, toOwnerOf: $0) } ?? (geteuid() != 0))
            try DurableFiles.rename(partial, to: path)
            let parent = DurableFiles.parent(of: path)
            try DurableFiles.synchronizeDirectory(parent.isEmpty ? "." : parent)
            return report
        } catch {
            try? FileManager.default.removeItem(atPath: partial)
            throw error is AnnalsError || error is CancellationError ? error : RelayLogError.wrapping(error)
        }
    }
}
