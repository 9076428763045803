import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import RelayTestSupport
import Synchronization
import Testing

@testable import RelayLog

/// A copy has the state of the original at one moment, and continues like it. The source is a folder, or PostgreSQL if this run has its
/// logs there. The target is the same, or a folder.
struct RelayCopyTests {
    private let folder: TemporaryDirectory
    private let clock = TestClock()

    init() throws { folder = try TemporaryDirectory() }

    private func place(_ name: String) -> String { "\(folder.path)/\(name)-\(UUID().uuidString)" }

    /// Two spaces with some entries, parts of an unfinished transaction, a snapshot, and tokens. One token is revoked.
    private func fill(_ path: String) async throws -> (shop: TestReplica, lineage: Lineage) {
        let log = try TestStorage.log(path, clock: clock.clock)
        let shop = try await log.createSpace(.shop).lineage
        let other = try await log.createSpace(.other).lineage
        var replica = TestReplica(1)
        for number in 0..<5 {
            let batch = replica.batch(
                shop, base: Position(Int64(number)), .writing(UInt64(number)), payload: [UInt8](repeating: 9, count: 3_000_000))
            #expect(try await log.push(batch).outcome == .accepted)
            replica.accept(batch)
        }
        var stranger = TestReplica(2)
        let batch = stranger.batch(other, base: .zero, .writing(1), .writing(2))
        _ = try await log.push(batch, to: .other)
        stranger.accept(batch)
        let parts = stranger.parts(other, base: Position(2), .writing(3), count: 3)
        _ = try await log.push(parts[0], to: .other)
        _ = try await log.tokens.create(label: "laptop", space: .shop, scope: .write)
        let revoked = try await log.tokens.create(label: "gone", space: nil, scope: .admin, lifetimeMilliseconds: 5)
        _ = try await log.tokens.revoke(revoked.record.id)
        await log.close()
        return (replica, shop)
    }

    @Test func `a copy into a folder goes on where the original stood`() async throws {
        let source = place("source")
        var (replica, lineage) = try await fill(source)
        let target = place("target")
        let database = try TestStorage.database(source)
        let report = try RelayCopy.makeFolder(target, from: database)
        try database.close()
        #expect(report.spaces == 2)
        #expect(report.positions == 7)
        #expect(report.tokens == 2)
        #expect(report.bytes > 15_000_000)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.contains("partial") }.isEmpty)

        let log = try RelayLog(database: RelayDatabase(directory: target), limits: RelayLogLimits(), clock: clock.clock, logger: .silent)
        #expect(try await log.describe(.shop).lineage == lineage)
        #expect(try await log.describe(.shop).head == Position(5))
        let next = replica.batch(lineage, base: Position(5), .writing(6))
        #expect(try await log.push(next).positions == [Position(6)])
        #expect(try await log.tokens.list().map(\.label) == ["laptop", "gone"])
        // New numbers come after the used ones.
        #expect(try await log.tokens.create(label: "new", space: nil, scope: .read).record.id == 3)
        await log.close()
    }

    @Test(.filesOnly, arguments: ["all", "all the cows"])
    func `a copy is not made of a snapshot whose bytes are not those that came`(content: String) async throws {
        let source = place("source")
        _ = try await fill(source)
        let log = try TestStorage.log(source, clock: clock.clock)
        let bytes = TestSnapshot.bytes("all the rows")
        let upload = try await log.snapshots.begin(.shop, position: Position(5))
        try await upload.write(bytes)
        let record = try await upload.finish(digest: .sha256(bytes[...]))
        await log.close()
        try Data(content.utf8).write(to: URL(fileURLWithPath: "\(source)/snapshots/\(record.file)"))

        let target = place("target")
        let database = try TestStorage.database(source)
        let error = #expect(throws: AnnalsError.self) { try RelayCopy.makeFolder(target, from: database) }
        try database.close()
        #expect(error?.code == .corruptBatch && error?.message.contains("the snapshot \(record.file) is corrupt") == true)
        #expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test(.filesOnly, .enabled(if: geteuid() == 0, "only root can give files away"))
    func `a copy that root makes belongs to the owner of the source`() async throws {
        let source = place("source")
        _ = try await fill(source)
        func all(_ path: String) throws -> [String] {
            try [path] + FileManager.default.subpathsOfDirectory(atPath: path).map { "\(path)/\($0)" }
        }
        for file in try all(source) { #expect(chown(file, 4242, 4343) == 0) }
        let target = place("target")
        let database = try TestStorage.database(source)
        let report = try RelayCopy.makeFolder(target, from: database)
        try database.close()
        #expect(!report.belongsToRoot)
        for file in try all(target) {
            var status = stat()
            #expect(stat(file, &status) == 0 && status.st_uid == 4242 && status.st_gid == 4343, "\(file)")
        }
    }

    @Test func `every column of every table is copied`() async throws {
        let source = place("source")
        _ = try await fill(source)
        let target = place("target")
        let database = try TestStorage.database(source)
        defer { try? database.close() }
        _ = try RelayCopy.makeFolder(target, from: database)
        let copied = try DatabaseQueue(path: target + "/relay.db")
        let tables = try await copied.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'annals_*'")
        }
        #expect(Set(tables) == Set(RelayTable.all.map(\.name)))
        for table in RelayTable.all {
            let columns = try await copied.read { db in try db.columns(in: table.name).map(\.name) }
            // A number that nothing refers to may differ.
            #expect(Set(columns).subtracting(["id"]) == Set(table.columns).subtracting(["id"]))
            let order = " ORDER BY \(table.columns.prefix(3).joined(separator: ", "))"
            let before = try database.storage.readNow { try $0.rows(table.selection + order, []) }
            let copy = try RelayDatabase(directory: target)
            let after = try copy.storage.readNow { try $0.rows(table.selection + order, []) }
            try copy.close()
            #expect(before.map(\.values) == after.map(\.values), "\(table.name)")
        }
    }

    @Test func `a folder's copy in the other form is the same, and moves back`() async throws {
        let (first, second, third) = (place("first"), place("second"), place("third"))
        _ = try await fill(first)
        let source = try TestStorage.database(first)
        _ = try RelayCopy.makeFolder(second, from: source)
        let folder = try RelayDatabase(directory: second)
        let target = try TestStorage.database(third)
        let report = try RelayCopy(source: folder, target: target).run()
        #expect(report.positions == 7)
        for table in RelayTable.all {
            let order = " ORDER BY \(table.columns.prefix(3).joined(separator: ", "))"
            let before = try source.storage.readNow { try $0.rows(table.selection + order, []) }
            let after = try target.storage.readNow { try $0.rows(table.selection + order, []) }
            #expect(before.map(\.values) == after.map(\.values), "\(table.name)")
        }
        for database in [source, folder, target] { try database.close() }
        let log = try TestStorage.log(third, clock: clock.clock)
        #expect(try await log.tokens.create(label: "new", space: nil, scope: .read).record.id == 3)
        #expect(try await log.createSpace(SpaceName("more") ?? .shop).head == .zero)
        await log.close()
    }

    /// Loses its connection after every commit. The data is written, and the work is repeated.
    private final class ForgetfulStorage: LogDatabase {
        private let inner: any LogDatabase

        init(_ inner: any LogDatabase) { self.inner = inner }

        func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T {
            _ = try inner.writeNow(body)
            return try inner.writeNow(body)
        }

        func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T { try await inner.read(body) }
        func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T { try inner.readNow(body) }
        func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
            try await inner.write(body)
        }
        func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) { inner.schedule(body) }
        func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) { inner.listen(visit) }
        func byteCount() async throws -> Int64 { try await inner.byteCount() }
        func close() throws { try inner.close() }
    }

    @Test func `a copy whose commit is done twice is there once`() throws {
        let (source, target) = (try RelayDatabase(directory: place("source")), try TestStorage.database(place("target")))
        defer { for database in [source, target] { try? database.close() } }
        try source.storage.writeNow { db in
            _ = try LogStorage.createSpace(.shop, lineage: .random(), at: 1, in: db)
        }
        let forgetful = RelayDatabase(shared: ForgetfulStorage(target.storage), snapshots: target.snapshots)
        #expect(try RelayCopy(source: source, target: forgetful).run().spaces == 1)
        #expect(try target.storage.readNow { try LogStorage.names(in: $0) } == [.shop])
        #expect(throws: AnnalsError.self) { try RelayCopy(source: source, target: forgetful).run() }
    }

    @Test func `nothing is copied over what is there`() async throws {
        let (first, second) = (place("first"), place("second"))
        _ = try await fill(first)
        _ = try await fill(second)
        let (source, target) = (try TestStorage.database(first), try TestStorage.database(second))
        defer { for database in [source, target] { try? database.close() } }
        let refusal = #expect(throws: AnnalsError.self) { try RelayCopy(source: source, target: target).run() }
        #expect(refusal?.code == .cannotCreate)
        let taken = #expect(throws: AnnalsError.self) { try RelayCopy.makeFolder(folder.path, from: source) }
        #expect(taken?.code == .cannotCreate)
    }

    @Test func `a copy that is broken off leaves nothing`() async throws {
        let first = place("first")
        _ = try await fill(first)
        let source = try TestStorage.database(first)
        defer { try? source.close() }
        let before = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(throws: CancellationError.self) {
            try RelayCopy.makeFolder(place("target"), from: source) { bytes in if bytes > 5_000_000 { throw CancellationError() } }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == before)
    }

    /// Adds a snapshot of at least this number of bytes to the log.
    @discardableResult
    private func snapshot(_ log: RelayLog, _ position: Int64, byteCount: Int) async throws -> [UInt8] {
        let upload = try await log.snapshots.begin(.shop, position: Position(position))
        // This content cannot be compressed.
        let bytes = TestSnapshot.bytes((0..<byteCount).map { _ in UInt8.random(in: 0 ... .max) })
        try await upload.write(bytes)
        _ = try await upload.finish(digest: .sha256(bytes[...]))
        return bytes
    }

    @Test func `a snapshot that is given up while the log is copied is in the copy`() async throws {
        let path = place("source")
        _ = try await fill(path)
        let log = try TestStorage.log(path, clock: clock.clock)
        var contents: [Int64: [UInt8]] = [:]
        for position in [2, 4] as [Int64] { contents[position] = try await snapshot(log, position, byteCount: 3_000_000) }
        let (source, target) = (try TestStorage.database(path), place("target"))
        let isFirst = Mutex(true)
        let report = try RelayCopy.makeFolder(target, from: source) { _ in
            guard isFirst.withLock({ exchange(&$0, with: false) }) else { return }
            // Like a purge: the log begins at the newest snapshot, and the earlier one is deleted.
            let files = try log.database.storage.writeNow { db in
                let space = try #require(try LogStorage.space(.shop, in: db))
                let digest = try #require(try RunningDigests.at(Position(4), of: space.id, in: db))
                try PurgeStorage.setHorizon(Position(4), digest, of: space.id, in: db)
                return try LogStorage.dropOldSnapshots(of: space.id, limits: RelayLogLimits(), in: db)
            }
            #expect(files.count == 1)
            for file in files { log.database.snapshots.remove(file) }
        }
        #expect(!isFirst.withLock { $0 } && report.snapshots == 2)
        await log.close()
        try source.close()
        let copy = try RelayLog(database: RelayDatabase(directory: target), clock: clock.clock, logger: .silent)
        for position in [2, 4] as [Int64] {
            let file = try await copy.snapshots.open(.shop, atOrBefore: Position(position))
            let bytes = try await file.read(at: 0, count: 4_000_000)
            #expect(file.record.position == Position(position) && bytes == contents[position])
        }
        await copy.close()
    }

    @Test func `a snapshot that cannot be read ends a copy with an error, and nothing is left`() async throws {
        let path = place("source")
        _ = try await fill(path)
        let log = try TestStorage.log(path, clock: clock.clock)
        try await snapshot(log, 2, byteCount: 10)
        let name = try await log.snapshots.open(.shop).record.file
        await log.close()
        let source = try TestStorage.database(path)
        defer { try? source.close() }
        if TestStorage.postgres == nil {
            source.snapshots.remove(name)
        } else {
            try await source.storage.write { db in
                try db.execute("DELETE FROM annals_snapshot_pieces WHERE file = ?1", [name])
                try db.execute("DELETE FROM annals_snapshot_files WHERE name = ?1", [name])
            }
        }
        let target = place("target")
        do {
            _ = try RelayCopy.makeFolder(target, from: source)
            Issue.record("it is copied")
        } catch {
            let error = try #require(error as? AnnalsError)
            #expect(error.message.contains("the snapshot \(name) is missing or cannot be read") && error.hint?.contains("again") == true)
        }
        #expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test func `a copy is of one moment, whatever the relay does meanwhile`() async throws {
        let path = place("source")
        _ = try await fill(path)
        let (source, relay) = (try TestStorage.database(path), try TestStorage.database(path))
        let target = place("target")
        let isFirst = Mutex(true)
        let report = try RelayCopy.makeFolder(target, from: source) { _ in
            guard isFirst.withLock({ exchange(&$0, with: false) }) else { return }
            // The first page is copied already.
            try relay.storage.writeNow { db in
                try db.execute("DELETE FROM annals_runs WHERE position > ?1", [4])
                try db.execute("UPDATE annals_spaces SET head = ?1", [9])
            }
        }
        #expect(report.positions == 7)
        let copy = try RelayDatabase(directory: target)
        let runs = try copy.storage.readNow { try $0.rows("SELECT space, position FROM annals_runs ORDER BY space, position", []).count }
        #expect(runs == 6)
        #expect(!isFirst.withLock { $0 })
        for database in [source, relay, copy] { try database.close() }
    }
}
