import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import SeededRandom
import Testing

/// A member damaged a snapshot's tables or pages and sent it. Every error must be reported as an error of the file, and a clone must begin
/// with an older snapshot.
///
/// `ANNALS_SEED=n swift test --filter DamagedSnapshotTests` replays one seed.
@Suite(.timeLimit(.minutes(20))) struct DamagedSnapshotTests {
    static let seeds = Seeds.given ?? Array(1...20)
    private static let values = ["NULL", "x'01ff'", "''", "'x'", "-1", "9223372036854775807", "-9223372036854775808", "1.5e300"]
    private static let pageBytes = 4_096

    @Test("a damaged snapshot is no defect, and a clone does without it", arguments: seeds)
    func damage(seed: UInt64) async throws {
        var chance = SeededGenerator(seed: seed)
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE item(id TEXT PRIMARY KEY, list INTEGER REFERENCES list(id), title TEXT);
                CREATE INDEX by_title ON item(title);
                INSERT INTO list VALUES(1, 'home'), (2, 'work');
                INSERT INTO item VALUES('a', 1, 'milk'), ('b', 1, 'bread');
                """)
        // A conflict, a new key on both sides, and enough rows for several pages.
        try world.outside(1, "UPDATE item SET title = 'oat milk' WHERE id = 'a'; INSERT INTO list VALUES(3, 'garden')")
        try world.outside(0, "UPDATE item SET title = 'soy milk' WHERE id = 'a'; INSERT INTO list VALUES(3, 'cellar')")
        try world.outside(
            0,
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300) INSERT INTO item SELECT 'i' || x, 1, 't' || x FROM c"
        )
        try await world.settle()

        let plain = world.folder.file("made.db")
        let state = try #require(await world.stores[0].replicaState())
        _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
        let damage = try seed % 2 == 0 ? damageTables(plain, Int(seed / 2), &chance) : damagePages(plain, &chance)
        let note: Comment = "seed \(seed): \(damage); ANNALS_SEED=\(seed) replays it"
        // A clone does not compare an index with the rows; `verify` does.
        let isIndexAlone = try Self.isWhole(plain, by: "quick_check") && !Self.isWhole(plain, by: "integrity_check")
        let packed = world.folder.file("made.zst")
        _ = try Compression.compressFile(at: plain, to: packed)
        // An honest relay would refuse some of them.
        let relay = AlteredRelay.handingOut(packed, at: state.position, world.relay)

        do {
            _ = try await world.joining("only", over: AlteredRelay.newestSnapshotOnly(relay)).clone(to: world.folder.file("only.db"))
        } catch let error as AnnalsError {
            #expect([.corruptBatch, .diverged, .schemaRefused, .newerFormat].contains(error.code), "\(note): \(error)")
        }
        let path = world.folder.file("clone.db")
        _ = try await world.joining("clone", over: relay).clone(to: path)
        guard !isIndexAlone else { return }
        let store = try Store(path: path, configuration: world.configuration("clone"))
        #expect(try await store.digest() == world.stores[0].digest(), note)
        let findings = try await store.verify()
        #expect(findings.isEmpty, "\(note): \(findings.map(\.message))")
        try store.close()
    }

    private static func isWhole(_ path: String, by pragma: String) throws -> Bool {
        do {
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            return try queue.read { db in try String.fetchOne(db, sql: "PRAGMA \(pragma)(1)") } == "ok"
        } catch is DatabaseError {
            return false
        }
    }

    /// Drops, renames or recreates one of Annals' own tables, or writes values of all types to it.
    private func damageTables(_ path: String, _ number: Int, _ chance: inout SeededGenerator) throws -> String {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction { db in
            let tables = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'annals\\_%' ESCAPE '\\' ORDER BY name")
            let table = tables[number % tables.count]
            var done = "DROP TABLE \(table)"
            switch number / tables.count {
            case 0: break
            case 1: done = "ALTER TABLE \(table) RENAME TO annals_other"
            case 2: done += "; CREATE TABLE \(table)(other TEXT)"
            default:
                let columns = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info('\(table)')")
                let rows = try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? 0
                let (column, first) = (chance.one(of: columns), try db.columns(in: table)[0].name)
                let row = Int.random(in: 0..<max(1, rows), using: &chance)
                done = """
                    UPDATE OR IGNORE \(table) SET "\(column)" = \(chance.one(of: Self.values))
                    WHERE "\(first)" = (SELECT "\(first)" FROM \(table) LIMIT 1 OFFSET \(row))
                    """
            }
            // Changes that SQLite refuses do no damage.
            try? db.execute(sql: done)
            return done
        }
    }

    /// Damages a page, or some bytes of one, after the header with the size of the file.
    private func damagePages(_ path: String, _ chance: inout SeededGenerator) throws -> String {
        var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        let page = Int.random(in: 0..<bytes.count / Self.pageBytes, using: &chance)
        let places = max(SQLiteHeader.length, page * Self.pageBytes)..<(page + 1) * Self.pageBytes
        let count = chance.chance(50) ? places.count : Int.random(in: 1...20, using: &chance)
        for place in places.shuffled(using: &chance).prefix(count) { bytes[place] = UInt8.random(in: 0...255, using: &chance) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        return "\(count) bytes of page \(page + 1)"
    }
}
