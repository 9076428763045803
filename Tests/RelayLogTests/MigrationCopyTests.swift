import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

/// Before a relay's folder is migrated to a newer format, a copy in the old one is kept.
@Suite struct MigrationCopyTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var path: String { directory.path + "/relay.db" }

    /// A folder of format 5 with an entry.
    private func makeOld() async throws {
        let log = try TestStorage.log(directory.path)
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        #expect(try await log.push(batch).outcome == .accepted)
        replica.accept(batch)
        await log.close()
        let queue = try DatabaseQueue(path: path)
        try await queue.write { try $0.execute(sql: BeforeOperators.sql + "PRAGMA user_version = 5") }
        try queue.close()
    }

    private func version(_ path: String) throws -> Int? {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
    }

    @Test(.filesOnly) func `the copy has the old format and everything, only its owner may read it, and it is made once`() async throws {
        try await makeOld()
        // Of a process that was killed while it made a copy.
        try Data("unfinished".utf8).write(to: URL(fileURLWithPath: path + ".format-5.partial"))
        let database = try RelayDatabase(directory: directory.path)
        let copy = try #require(database.keptCopy)
        try database.close()
        #expect(copy == path + ".format-5")
        #expect(try version(path) == SQLiteSchema.formatVersion && version(copy) == 5)
        let queue = try DatabaseQueue(path: copy)
        #expect(try await queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM annals_runs") } == 1)
        try queue.close()
        #expect(try FileManager.default.attributesOfItem(atPath: copy)[.posixPermissions] as? Int == 0o600)
        #expect(try !FileManager.default.contentsOfDirectory(atPath: directory.path).contains { $0.hasSuffix(".partial") })

        let again = try RelayDatabase(directory: directory.path)
        #expect(again.keptCopy == nil)
        try again.close()
        // Back to the old format: the copy becomes the database, and is migrated as before.
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        try FileManager.default.copyItem(atPath: copy, toPath: path)
        let log = try TestStorage.log(directory.path)
        #expect(try await log.describe(.shop).head == Position(1))
        await log.close()
    }

    @Test(.filesOnly) func `without room for the copy beside the reserve nothing is migrated`() async throws {
        try await makeOld()
        let error = #expect(throws: AnnalsError.self) { try RelayDatabase(directory: directory.path, reserveBytes: .max) }
        #expect(error?.code == .diskFull)
        #expect(try version(path) == 5)
        #expect(try !FileManager.default.contentsOfDirectory(atPath: directory.path).contains { $0.contains("format-") })
        // A new folder needs no copy.
        let new = try RelayDatabase(directory: directory.path + "/new", reserveBytes: .max)
        #expect(new.keptCopy == nil)
        try new.close()
    }
}
