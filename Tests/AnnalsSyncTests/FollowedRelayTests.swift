import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import SeededRandom
import Testing

/// Replicas follow a relay that was restored from a backup. What it lost comes back once, and nothing is doubled.
@Suite struct FollowedRelayTests {
    private static let schema = """
        CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE item(id INTEGER PRIMARY KEY, note INTEGER REFERENCES note(id) ON DELETE CASCADE, name TEXT UNIQUE);
        """

    /// A space with a relay that can be restored from backups.
    private struct Place {
        let world: SyncedStores
        var relay: LocalRelay
        private var folder: String

        init(
            _ count: Int, schema: String = FollowedRelayTests.schema, partBytes: Int? = nil, keys: SpaceKeyRing? = nil,
            limits: OutboxLimits = OutboxLimits()
        ) async throws {
            var limits = limits
            if let partBytes { limits.partBytes = partBytes }
            world = try await SyncedStores(replicas: count, schema: schema, outboxLimits: limits, spaceKeys: keys)
            relay = world.relay
            folder = world.folder.file("relay")
        }

        func write(_ index: Int, _ sql: String) throws { try world.outside(index, sql) }

        @discardableResult
        func sync(_ index: Int, _ direction: SyncDirection = .both) async throws -> SyncAgent.Summary {
            world.clock.advance(.milliseconds(10))
            let agent = SyncAgent(
                store: world.stores[index], transport: relay, restoredRelay: .follow, environment: world.environment)
            return try await agent.sync(direction)
        }

        func settle() async throws {
            for _ in 0..<20 {
                var isQuiet = true
                for index in world.stores.indices {
                    let summary = try await sync(index)
                    if summary.pushed.transactions + summary.pulled.transactions > 0 { isQuiet = false }
                }
                if isQuiet { return }
            }
            Issue.record("the replicas do not settle")
        }

        func backup(_ name: String = "backup") throws {
            try FileManager.default.copyItem(atPath: folder, toPath: world.folder.file(name))
        }

        mutating func restore(_ name: String = "backup") throws {
            folder = world.folder.file("\(name)-\(ReplicaID.random())")
            try FileManager.default.copyItem(atPath: world.folder.file(name), toPath: folder)
            relay = try LocalRelay(folder: folder, space: world.space)
        }

        /// All replicas and a new clone have the same rows, and no replica has a finding.
        func expectOne(_ notes: [String]? = nil, _ note: Comment? = nil) async throws {
            let path = world.folder.file("clone-\(ReplicaID.random()).db")
            _ = try await world.joining("clone", over: relay).clone(to: path)
            let clone = try Store(path: path, configuration: world.configuration("clone"))
            let expected = try await clone.digest()
            let conflicts = try await clone.conflicts().map(\.entry)
            for (index, store) in world.stores.enumerated() {
                #expect(try await store.digest() == expected, "replica \(index) \(note.map(\.rawValue) ?? "")")
                #expect(try await store.verify().isEmpty, "replica \(index) \(note.map(\.rawValue) ?? "")")
                let own = try await store.conflicts().map(\.entry)
                #expect(Set(own) == Set(conflicts) && own.count == conflicts.count, "replica \(index) \(note.map(\.rawValue) ?? "")")
            }
            if let notes {
                #expect(try await world.rows(0, "SELECT text FROM note ORDER BY text") == notes.sorted().map { [$0.databaseValue] })
            }
            try clone.close()
        }
    }

    @Test(arguments: [3, 20])
    func `what the relay lost comes back once, in any order of syncs`(count: Int) async throws {
        for turn in 0..<min(count, 3) {
            var place = try await Place(count)
            try place.write(0, "INSERT INTO note VALUES(1, 'before')")
            try await place.settle()
            try place.backup()
            for index in 0..<min(count, 3) { try place.write(index, "INSERT INTO note(text) VALUES('after \(index)')") }
            try await place.settle()
            try place.restore()
            // One replica's work was never sent.
            try place.write(1, "INSERT INTO note(text) VALUES('unsent')")
            let summary = try await place.sync(turn)
            #expect(summary.followed != nil && summary.returned >= 3)
            try await place.settle()
            try await place.expectOne(["before", "unsent"] + (0..<min(count, 3)).map { "after \($0)" })
        }
    }

    @Test func `all at once`() async throws {
        var place = try await Place(8)
        try place.write(0, "INSERT INTO note VALUES(1, 'before')")
        try await place.settle()
        try place.backup()
        for index in 0..<8 { try place.write(index, "INSERT INTO note(text) VALUES('after \(index)')") }
        try await place.settle()
        try place.restore()
        let now = place
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<8 { group.addTask { try await now.sync(index) } }
            try await group.waitForAll()
        }
        try await place.settle()
        try await place.expectOne(["before"] + (0..<8).map { "after \($0)" })
    }

    @Test func `work at the restored relay is kept beside what comes back, and strangers stay two rows`() async throws {
        var place = try await Place(4)
        try place.write(0, "INSERT INTO note VALUES(1, 'before')")
        try await place.settle()
        try place.backup()
        try place.write(
            0, "INSERT INTO note VALUES(2, 'lost'); INSERT INTO item VALUES(1, 2, 'of lost'); UPDATE note SET text = 'changed' WHERE id = 1"
        )
        for index in 0..<3 { try await place.sync(index) }
        try place.restore()
        // The last replica was offline, and writes under the same keys.
        try place.write(3, "INSERT INTO note VALUES(2, 'new'); INSERT INTO item VALUES(1, 2, 'of new')")
        #expect(try await place.sync(3).followed == nil)
        try place.write(1, "INSERT INTO note VALUES(3, 'unsent')")
        for index in [2, 1, 0] { #expect(try await place.sync(index).followed != nil) }
        try await place.settle()
        try await place.expectOne(["changed", "lost", "new", "unsent"])
        let items = try await place.world.rows(0, "SELECT item.name, note.text FROM item JOIN note ON note.id = item.note ORDER BY 1")
        #expect(items == [["of lost".databaseValue, "lost".databaseValue], ["of new".databaseValue, "new".databaseValue]])
    }

    @Test func `an own entry ahead of the position comes back`() async throws {
        var place = try await Place(3)
        try await place.settle()
        try place.backup()
        try place.write(1, "INSERT INTO note VALUES(1, 'of 1')")
        try await place.sync(1)
        try place.write(0, "INSERT INTO note VALUES(2, 'of 0')")
        try await place.sync(0, .pushOnly)
        try place.restore()
        try await place.sync(0)
        try await place.settle()
        try await place.expectOne(["of 1", "of 0"])
    }

    @Test func `a transaction in parts, policies and a sealed space`() async throws {
        var place = try await Place(3, partBytes: 2_000, keys: SpaceKeyRing(.random()))
        try await place.settle()
        try place.backup()
        try place.write(1, "INSERT INTO note VALUES(1, hex(randomblob(9000))), (2, 'small')")
        try await place.settle()
        try await place.world.stores[2].setPolicies([PolicySetting(table: "note", column: "text", aspect: .update, policy: "max")])
        try place.write(2, "UPDATE note SET text = 'changed' WHERE id = 2")
        try await place.settle()
        try place.restore()
        try await place.settle()
        try await place.expectOne()
        #expect(try await place.world.rows(0, "SELECT count(*), max(length(text)) FROM note") == [[2.databaseValue, 18_000.databaseValue]])
    }

    @Test func `a lost change of the schema comes back, and a store that lacks it waits for its migration`() async throws {
        var place = try await Place(3)
        try place.write(0, "INSERT INTO note VALUES(1, 'before')")
        try await place.settle()
        try place.backup()
        func migrate(_ index: Int) async throws {
            try await place.world.stores[index].migrate(label: "version 2", tracking: .all) { db in
                try db.execute(
                    sql: """
                        ALTER TABLE note ADD COLUMN color TEXT DEFAULT 'none';
                        CREATE TABLE IF NOT EXISTS extra(id INTEGER PRIMARY KEY, text TEXT);
                        """)
            }
        }
        for index in [0, 1] { try await migrate(index) }
        try place.write(0, "INSERT INTO note VALUES(2, 'two', 'red'); UPDATE note SET color = 'blue' WHERE id = 1")
        try place.write(0, "INSERT INTO extra VALUES(1, 'extra')")
        try await place.settle()
        try place.restore()
        // It has deferred cells of a column that it lacks, and none of them is lost.
        try place.write(2, "INSERT INTO note VALUES(3, 'unsent')")
        let error = await #expect(throws: AnnalsError.self) { try await place.sync(2) }
        #expect(error?.code == .relayRolledBack && error?.hint?.contains("migrate the store") == true, "\(String(describing: error))")
        #expect(try await place.world.stores[2].verify().isEmpty)
        // At first, only the replica that did not make the change follows.
        try await place.sync(1)
        try await place.sync(0)
        try await migrate(2)
        try await place.settle()
        try await place.expectOne(["before", "two", "unsent"])
        for index in 0..<3 {
            let colors = try await place.world.rows(index, "SELECT color FROM note ORDER BY id")
            #expect(colors == ["blue", "red", "none"].map { [$0.databaseValue] }, "replica \(index)")
            #expect(try await place.world.rows(index, "SELECT text FROM extra") == [["extra".databaseValue]])
        }
    }

    @Test func `of what is kept for it a store drops the oldest, and then stays as it is`() async throws {
        var limits = OutboxLimits()
        limits.recentLog = 2_000...2_000
        var place = try await Place(2, limits: limits)
        try await place.settle()
        try place.backup()
        for number in 0..<20 {
            try place.write(number % 2, "INSERT INTO note(text) VALUES(hex(randomblob(100)))")
            try await place.sync(number % 2)
        }
        try await place.settle()
        let bytes = try await place.world.rows(0, "SELECT sum(length(batch)) <= 2000, count(*) > 1 FROM annals_log")
        #expect(bytes == [[1.databaseValue, 1.databaseValue]])
        try place.restore()
        let before = try await place.world.stores[0].digest()
        let error = await #expect(throws: AnnalsError.self) { try await place.sync(0) }
        #expect(error?.code == .relayRolledBack)
        #expect(try await place.world.stores[0].digest() == before)
        #expect(try await place.world.stores[0].verify().isEmpty)
    }

    @Test(arguments: [0, 1])
    func `a table that was removed in the lost part of the log is removed again`(first: Int) async throws {
        var place = try await Place(2)
        try await place.settle()
        try place.backup()
        try await place.world.stores[0].migrate(label: "v2", sql: "DROP TABLE item")
        try place.write(1, "INSERT INTO note VALUES(1, 'lost'); INSERT INTO item VALUES(1, 1, 'mine')")
        try await place.settle()
        #expect(try await place.world.stores[1].status().removedTables == ["item"])
        try place.restore()
        try place.write(1, "INSERT INTO note VALUES(2, 'after')")
        try await place.sync(first)
        try await place.settle()
        #expect(try await place.world.stores[1].status().removedTables == ["item"])
        #expect(try await place.world.rows(1, "SELECT name FROM item") == [["mine".databaseValue]])
        try place.write(1, "DROP TABLE item")
        try await place.settle()
        try await place.expectOne(["lost", "after"])
    }

    @Test func `without being told to, a store stays as it is`() async throws {
        var place = try await Place(2)
        try await place.settle()
        try place.backup()
        try place.write(0, "INSERT INTO note VALUES(1, 'lost')")
        try await place.settle()
        try place.restore()
        let error = await #expect(throws: AnnalsError.self) { try await place.world.sync(0, over: place.relay) }
        #expect(error?.code == .relayRolledBack)
        let agent = SyncAgent(store: place.world.stores[0], transport: place.relay, environment: place.world.environment)
        do {
            try await agent.sync()
        } catch let error as AnnalsError where error.code == .relayRolledBack {
            try await agent.sync(restoredRelay: .follow)
        }
        try await place.settle()
        try await place.expectOne(["lost"])
    }

    @Test func `a second restore, also of a newer backup`() async throws {
        var place = try await Place(3)
        try await place.settle()
        try place.backup("old")
        try place.write(0, "INSERT INTO note(text) VALUES('one')")
        try await place.settle()
        try place.backup("new")
        try place.write(1, "INSERT INTO note(text) VALUES('two')")
        try await place.settle()
        try place.restore("old")
        try await place.sync(2)
        try await place.sync(1)
        try place.write(1, "INSERT INTO note(text) VALUES('three')")
        try await place.sync(1)
        try place.restore("new")
        try await place.settle()
        try await place.expectOne(["one", "two", "three"])
    }

    @Test("Random worlds whose relay is put back again and again", arguments: Seeds.given ?? Array(1...2))
    func worlds(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let schema = ConvergenceTests.schema(seed) + "CREATE TABLE mark(id INTEGER PRIMARY KEY, text TEXT);"
        var place = try await Place(4, schema: schema, partBytes: random.chance(30) ? 300 : nil)
        var marks = 0
        try await place.settle()
        try place.backup("b0")
        var backups = 1
        for _ in 0..<80 {
            let index = Int.random(in: 0..<4, using: &random)
            if random.chance(30) {
                // Rows that never change: none may be lost or doubled.
                marks += 1
                try place.write(index, "INSERT INTO mark(text) VALUES('\(marks)')")
            }
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<35: try await place.sync(index, random.chance(20) ? .pullOnly : random.chance(20) ? .pushOnly : .both)
            case 35..<40:
                try place.backup("b\(backups)")
                backups += 1
            case 40..<45: try place.restore("b\(Int.random(in: 0..<backups, using: &random))")
            default: try? place.write(index, ConvergenceTests.statement(&random))
            }
        }
        try await place.settle()
        let stored = try await place.world.rows(0, "SELECT text FROM mark ORDER BY CAST(text AS INTEGER)")
        #expect(stored == (0..<marks).map { ["\($0 + 1)".databaseValue] }, "seed \(seed)")
        try await place.expectOne(nil, "seed \(seed): ANNALS_SEED=\(seed) replays it")
    }
}
