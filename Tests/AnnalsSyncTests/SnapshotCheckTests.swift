import AnnalsCore
import AnnalsSQLite
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsSchema
@testable import AnnalsStore

/// One owner makes a snapshot of the rows of all. A replica of another owner compares it with its rows before a purge or a clone depends
/// on it.
@Suite struct SnapshotCheckTests {
    private let folder: TemporaryFolder
    private let space: SpaceName
    private let ann = ReplicaOwner.token(1)
    private let bob = ReplicaOwner.token(2)
    private let cid = ReplicaOwner.token(3)

    init() throws {
        folder = try TemporaryFolder()
        space = try #require(SpaceName("notes"))
    }

    private func relayLog() throws -> RelayLog {
        var limits = RelayLogLimits()
        (limits.snapshotLogBytes, limits.snapshotLogPositions) = (1 << 40, 1 << 40)
        return try RelayLog(directory: folder.file("relay"), limits: limits, logger: LocalRelay.silence)
    }

    private func transport(_ log: RelayLog, _ owner: ReplicaOwner) throws -> LocalRelay {
        LocalRelay(log: log, space: space, owner: owner)
    }

    private func joining(_ log: RelayLog, _ owner: ReplicaOwner) throws -> Joining {
        Joining(transport: try transport(log, owner), address: "http://127.0.0.1:1", space: space, name: owner.text)
    }

    /// Ann's store creates the space, Bob's is a clone, and both have written.
    private func twoOwners(_ log: RelayLog) async throws -> (ann: Store, bob: Store) {
        let path = folder.file("ann.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        }
        try queue.close()
        let store = try Store(path: path)
        _ = try await store.track(.all)
        _ = try await joining(log, ann).join(store)
        _ = try await joining(log, bob).clone(to: folder.file("bob.db"))
        let other = try Store(path: folder.file("bob.db"))
        for number in 0..<3 {
            try await write(store, "INSERT INTO note VALUES('ann \(number)', 'x')")
            try await sync(store, log, ann)
            try await sync(other, log, bob)
            try await write(other, "INSERT INTO note VALUES('bob \(number)', 'x')")
            try await sync(other, log, bob)
            try await sync(store, log, ann)
        }
        return (store, other)
    }

    /// Ann's store creates the space, and no other owner can compare a snapshot.
    private func oneOwner(_ log: RelayLog) async throws -> Store {
        let path = folder.file("ann.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT)") }
        try queue.close()
        let store = try Store(path: path)
        _ = try await store.track(.all)
        _ = try await joining(log, ann).join(store)
        try await write(store, "INSERT INTO note VALUES('a', 'x')")
        try await sync(store, log, ann)
        return store
    }

    private func write(_ store: Store, _ sql: String) async throws {
        let queue = try DatabaseQueue(path: store.path)
        try await queue.write { db in try db.execute(sql: sql) }
        try queue.close()
    }

    @discardableResult
    private func sync(_ store: Store, _ log: RelayLog, _ owner: ReplicaOwner) async throws -> SyncAgent.Summary {
        try await SyncAgent(store: store, transport: transport(log, owner)).sync()
    }

    /// Sends a snapshot of the store's position, with changes that a member could make up.
    @discardableResult
    private func bring(_ store: Store, _ log: RelayLog, _ owner: ReplicaOwner, changing sql: String? = nil) async throws -> Position {
        let plain = folder.file("made.db")
        let state = try #require(await store.replicaState())
        _ = try #require(await store.makeSnapshot(at: plain, relayTime: Int64(Date().timeIntervalSince1970 * 1000)))
        if let sql {
            let queue = try DatabaseQueue(path: plain)
            // Its maker states the digest of the made-up rows.
            try await queue.writeWithoutTransaction { db in
                try db.execute(sql: "\(sql); VACUUM")
                let digest = try Self.digest(db)
                try db.execute(sql: "UPDATE annals_snapshot SET value = ? WHERE name = 'rows'", arguments: [Data(digest.bytes)])
            }
            try queue.close()
        }
        let packed = folder.file("made.zst")
        let file = try Compression.compressFile(at: plain, to: packed)
        for path in [plain] { try FileManager.default.removeItem(atPath: path) }
        try await transport(log, owner).uploadSnapshot(at: packed, seen: state.seen, digest: file.digest) { _ in }
        return state.position
    }

    /// The digest of the rows in a snapshot's file, as any program can compute it.
    private static func digest(_ db: Database) throws -> Digest {
        try StoreDigest.rows(db, schema: "main", tables: [#require(try SchemaReader(db).table("note"))])
    }

    private let now: PurgeRules = {
        var rules = PurgeRules()
        (rules.keep, rules.retention) = (-60_000, -60_000)
        return rules
    }()

    @Test func `a purge waits until a replica of another owner has compared the snapshot with its rows`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann)
        // Other syncs of its maker do not count.
        try await sync(ann, log, self.ann)
        let before = try await log.purge(space, now, commits: false)
        #expect(before.horizon == .zero || before.horizon == Position(1))
        #expect(before.unconfirmed?.position == position && before.unconfirmed?.verdict == .unchecked)
        // Work that is not in the log is left out of the comparison.
        try await write(bob, "INSERT INTO note VALUES('unsent', 'x')")
        try await SyncAgent(store: bob, transport: transport(log, self.bob)).sync(.pullOnly)
        #expect(try await log.purge(space, now, commits: false).unconfirmed != nil)
        try await sync(bob, log, self.bob)
        let after = try await log.purge(space, now)
        #expect(after.horizon == position && after.unconfirmed == nil)
        _ = try await joining(log, cid).clone(to: folder.file("cid.db"))
        let clone = try Store(path: folder.file("cid.db"))
        #expect(try await clone.digest() == bob.digest())
    }

    @Test func `made up rows are found out, hold back the purge, and reach no clone`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann, changing: "UPDATE note SET text = 'made up' WHERE id = 'bob 1'")
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon < position && plan.unconfirmed?.verdict == .refuted)
        _ = try await joining(log, cid).clone(to: folder.file("cid.db"))
        #expect(try await Store(path: folder.file("cid.db")).digest() == bob.digest())
        // An honest snapshot at a later position ends this.
        try await write(bob, "INSERT INTO note VALUES('later', 'x')")
        try await sync(bob, log, self.bob)
        let later = try await bring(bob, log, self.bob)
        try await sync(ann, log, self.ann)
        #expect(try await log.purge(space, now).horizon == later)
    }

    @Test func `a snapshot that cannot be used is refuted`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann, changing: "DELETE FROM annals_snapshot WHERE name = 'lineage'")
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon < position && plan.unconfirmed?.verdict == .refuted)
    }

    @Test func `rows that are not those that the snapshot states are refused by a clone`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let plain = folder.file("made.db")
        let state = try #require(await ann.replicaState())
        _ = try await ann.makeSnapshot(at: plain, relayTime: Int64(Date().timeIntervalSince1970 * 1000))
        let queue = try DatabaseQueue(path: plain)
        try await queue.write { db in try db.execute(sql: "UPDATE note SET text = 'made up' WHERE id = 'bob 1'") }
        try queue.close()
        let packed = folder.file("made.zst")
        let file = try Compression.compressFile(at: plain, to: packed)
        try await transport(log, self.ann).uploadSnapshot(at: packed, seen: state.seen, digest: file.digest) { _ in }
        // Two owners confirm it.
        for owner in [self.bob, cid] {
            let check = SnapshotCheck(position: state.position, digest: file.digest, isGood: true)
            _ = try await log.check(check, of: space, by: owner)
        }
        let clone = try await joining(log, cid).clone(to: folder.file("cid.db"))
        #expect(clone.unusableSnapshots == [state.position])
        #expect(try await Store(path: folder.file("cid.db")).digest() == bob.digest())
    }

    @Test(arguments: [
        "UPDATE annals_snapshot SET value = value - 1 WHERE name = 'position'",
        "UPDATE annals_snapshot SET value = zeroblob(32) WHERE name = 'log'",
    ])
    func `a snapshot of another position or log than its maker told the relay is refuted`(sql: String) async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann, changing: sql)
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon < position && plan.unconfirmed?.verdict == .refuted)
    }

    @Test(arguments: [
        "UPDATE annals_snapshot_authors SET counter = counter + 1 WHERE counter > 1",
        "UPDATE annals_snapshot_authors SET digest = randomblob(32) WHERE counter > 1",
        "DELETE FROM annals_snapshot_authors WHERE counter > 1",
        "INSERT INTO annals_snapshot_authors VALUES(randomblob(16), 3, randomblob(32))",
        "INSERT INTO annals_snapshot_policies VALUES('note', 'text', 0, 'sum')",
        "INSERT INTO annals_snapshot VALUES('schema_version', 7)",
        "CREATE UNIQUE INDEX made ON note(id, text)",
        "ALTER TABLE note RENAME TO old; CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT CHECK(length(text) < 99)); "
            + "INSERT INTO note SELECT * FROM old; DROP TABLE old",
        "ALTER TABLE note RENAME TO old; CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT COLLATE NOCASE); "
            + "INSERT INTO note SELECT * FROM old; DROP TABLE old",
        "INSERT INTO annals_snapshot VALUES('names', CAST('{\"note\":{\"name\":\"other\",\"columns\":{}}}' AS BLOB))",
    ])
    func `a snapshot with the right rows and other authors, policies or schema than the log is refuted`(sql: String) async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann, changing: sql)
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon < position && plan.unconfirmed?.verdict == .refuted)
        // Clones begin with an older snapshot and continue.
        _ = try await joining(log, cid).clone(to: folder.file("cid.db"))
        let clone = try Store(path: folder.file("cid.db"))
        try await write(ann, "INSERT INTO note VALUES('later', 'x')")
        try await sync(ann, log, self.ann)
        try await sync(clone, log, cid)
        #expect(try await clone.digest() == ann.digest())
    }

    @Test func `what each store has of its own does not refute a snapshot`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        try await write(bob, "CREATE VIEW notes AS SELECT * FROM note; CREATE TABLE scratch(id INTEGER PRIMARY KEY)")
        let position = try await bring(
            ann, log, self.ann, changing: "CREATE INDEX texts ON note(text); UPDATE annals_snapshot SET value = 9 WHERE name = 'table:note'"
        )
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon == position && plan.unconfirmed == nil)
    }

    @Test func `a snapshot with a time far ahead does not move a clone's clock there`() async throws {
        let log = try relayLog()
        let store = try await oneOwner(log)
        try await bring(store, log, ann, changing: "UPDATE annals_snapshot SET value = 1 << 61 WHERE name = 'time'")
        _ = try await joining(log, bob).clone(to: folder.file("bob.db"))
        let clone = try Store(path: folder.file("bob.db"))
        let time = try await clone.database.read { db in try StoreClock.load(db).last.milliseconds }
        #expect(time < Int64(Date().timeIntervalSince1970 * 1000) + 2 * HybridTime.allowedLeadMilliseconds)
    }

    @Test func `an older snapshot that is true does not stand for a later position`() async throws {
        let log = try relayLog()
        let (ann, bob) = try await twoOwners(log)
        let plain = folder.file("early.db")
        _ = try #require(await ann.makeSnapshot(at: plain, relayTime: Int64(Date().timeIntervalSince1970 * 1000)))
        try await write(bob, "INSERT INTO note VALUES('later', 'x')")
        try await sync(bob, log, self.bob)
        try await sync(ann, log, self.ann)
        let state = try #require(await ann.replicaState())
        let file = try Compression.compressFile(at: plain, to: folder.file("early.zst"))
        try await transport(log, self.ann).uploadSnapshot(at: folder.file("early.zst"), seen: state.seen, digest: file.digest) { _ in }
        try await sync(bob, log, self.bob)
        let plan = try await log.purge(space, now)
        #expect(plan.horizon < state.position && plan.unconfirmed?.verdict == .refuted)
    }

    @Test func `a space of one owner rests on that owner's word`() async throws {
        let log = try relayLog()
        let store = try await oneOwner(log)
        let position = try await bring(store, log, ann)
        #expect(try await log.purge(space, now).horizon == position)
    }

    @Test func `the word of the maker's own owner does not count, and of others the first one does`() async throws {
        let log = try relayLog()
        let (ann, _) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann)
        let digest = try await log.snapshots.open(space, atOrBefore: position, exact: true).record.digest
        func word(_ isGood: Bool, _ owner: ReplicaOwner?, _ digest: Digest) async throws -> CheckOutcome {
            try await log.check(SnapshotCheck(position: position, digest: digest, isGood: isGood), of: space, by: owner)
        }
        #expect(try await word(true, self.ann, digest) == .noSuchSnapshot)
        #expect(try await word(true, nil, digest) == .noSuchSnapshot)
        #expect(try await word(true, bob, Digest.sha256([1])) == .noSuchSnapshot)
        #expect(try await log.purge(space, now, commits: false).unconfirmed != nil)
        #expect(try await word(false, bob, digest) == .recorded(isDispute: true))
        #expect(try await log.purge(space, now, commits: false).unconfirmed?.verdict == .refuted)
        #expect(try await word(true, bob, digest) == .known)
        #expect(try await log.purge(space, now, commits: false).unconfirmed?.verdict == .refuted)
        #expect(try await word(true, cid, digest) == .recorded(isDispute: false))
        #expect(try await log.purge(space, now, commits: false).horizon == position)
    }

    @Test func `an operator may force a purge on an unconfirmed snapshot`() async throws {
        let log = try relayLog()
        let (ann, _) = try await twoOwners(log)
        let position = try await bring(ann, log, self.ann)
        #expect(try await log.purge(space, .asked(keep: 0, isForced: true)).horizon == position)
    }
}
