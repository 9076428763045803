import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// A layer of a GeoPackage, with the R-tree index and the triggers that the standard prescribes (OGC 12-128r18, annex F.3). The
/// triggers call functions that SQLite does not have.
@Suite struct GeoPackageTests {
    private static let layer = """
        CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL);
        CREATE TABLE gpkg_extensions (table_name TEXT, column_name TEXT, extension_name TEXT NOT NULL, UNIQUE (table_name, column_name));
        CREATE TABLE tree (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom POINT, species TEXT);
        CREATE VIRTUAL TABLE rtree_tree_geom USING rtree(id, minx, maxx, miny, maxy);
        """
    private static let triggers = """
        CREATE TRIGGER rtree_tree_geom_insert AFTER INSERT ON tree WHEN (new.geom NOT NULL AND NOT ST_IsEmpty(NEW.geom))
        BEGIN
          INSERT OR REPLACE INTO rtree_tree_geom VALUES (
            NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom));
        END;
        CREATE TRIGGER rtree_tree_geom_update6 AFTER UPDATE OF geom ON tree
          WHEN OLD.fid = NEW.fid AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom))
            AND (OLD.geom NOTNULL AND NOT ST_IsEmpty(OLD.geom))
        BEGIN
          UPDATE rtree_tree_geom SET minx = ST_MinX(NEW.geom), maxx = ST_MaxX(NEW.geom), miny = ST_MinY(NEW.geom),
            maxy = ST_MaxY(NEW.geom) WHERE id = NEW.fid;
        END;
        CREATE TRIGGER rtree_tree_geom_update3 AFTER UPDATE ON tree
          WHEN OLD.fid != NEW.fid AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom))
        BEGIN
          DELETE FROM rtree_tree_geom WHERE id = OLD.fid;
          INSERT OR REPLACE INTO rtree_tree_geom VALUES (
            NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom));
        END;
        CREATE TRIGGER rtree_tree_geom_delete AFTER DELETE ON tree WHEN old.geom NOT NULL
        BEGIN
          DELETE FROM rtree_tree_geom WHERE id = OLD.fid;
        END;
        """

    /// A point as a literal in SQL.
    private static func point(_ x: Double, _ y: Double) -> String {
        var bytes: [UInt8] = [0x47, 0x50, 0, 1, 0xe6, 0x10, 0, 0, 1, 1, 0, 0, 0]
        for number in [x, y] { withUnsafeBytes(of: number.bitPattern.littleEndian) { bytes += $0 } }
        return "x'" + bytes.map { String(format: "%02x", $0) }.joined() + "'"
    }

    /// Writes as a program with these functions does, through a store's connection.
    private func write(_ store: Store, _ sql: String) async throws {
        _ = try await store.transaction { db in try db.execute(sql: sql) }
    }

    private func indexed(_ path: String) throws -> [String] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let sql = "SELECT id || ': ' || minx || ' ' || maxx || ' ' || miny || ' ' || maxy FROM rtree_tree_geom ORDER BY id"
        return try queue.read { db in try String.fetchAll(db, sql: sql) }
    }

    @Test func `the index of each replica follows the rows, also where the keys change in a merge`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.layer + Self.triggers)
        try await write(world.stores[0], "INSERT INTO tree (geom, species) VALUES (\(Self.point(1, 2)), 'oak'), (NULL, 'elm')")
        try await world.settle()
        #expect(try indexed(world.stores[1].path) == ["1: 1.0 1.0 2.0 2.0"])
        try await write(world.stores[1], "UPDATE tree SET geom = \(Self.point(5, 6)) WHERE fid = 1")
        try await write(world.stores[0], "INSERT INTO tree (geom) VALUES (\(Self.point(7, 7)))")
        try await write(world.stores[1], "INSERT INTO tree (geom) VALUES (\(Self.point(8, 8)))")
        try await world.settle()
        let rows = try indexed(world.stores[0].path)
        #expect(rows.count == 3 && rows[0] == "1: 5.0 5.0 6.0 6.0")
        #expect(try indexed(world.stores[1].path) == rows)
        try await write(world.stores[0], "DELETE FROM tree WHERE fid = 1")
        try await world.settle()
        #expect(try indexed(world.stores[1].path) == Array(rows.dropFirst()))
    }

    @Test func `a clone and a replayed file have the whole index`() async throws {
        // The snapshot has these rows, and no trigger ran for them.
        let rows = "INSERT INTO tree (geom) VALUES (\(Self.point(1, 2))), (NULL), (\(Self.point(3, 4)));"
        let world = try await SyncedStores(replicas: 1, schema: Self.layer + rows + Self.triggers)
        try await world.settle()
        let path = world.folder.file("clone.gpkg")
        let clone = try await world.joining("clone").clone(to: path)
        #expect(clone.emptyTables == ["gpkg_extensions"])
        #expect(try indexed(path) == ["1: 1.0 1.0 2.0 2.0", "3: 3.0 3.0 4.0 4.0"])
        _ = try await world.stores[0].replay(to: world.stores[0].token(named: "latest"), output: world.folder.file("now.gpkg"))
        #expect(try indexed(world.folder.file("now.gpkg")) == indexed(path))
    }

    @Test func `an index that cannot be filled stays empty, and the clone works`() async throws {
        let other = """
            CREATE VIRTUAL TABLE box USING rtree(id, low, high);
            CREATE TRIGGER tree_box AFTER INSERT ON tree WHEN NEW.species LIKE '%box' BEGIN
              INSERT INTO box SELECT NEW.fid, 1, 2;
              INSERT INTO box VALUES (-1 - NEW.fid, iif(NEW.species = 'box', (SELECT count(*) FROM tree), 1000), 100);
            END;
            """
        let rows = "INSERT INTO tree (species) VALUES ('box'), ('oak'), ('wrong box');"
        let world = try await SyncedStores(replicas: 1, schema: Self.layer + rows + Self.triggers + other)
        try await world.settle()
        let path = world.folder.file("clone.gpkg")
        _ = try await world.joining("clone").clone(to: path)
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let ids = try await queue.read { db in try Int.fetchAll(db, sql: "SELECT id FROM box") }
        #expect(ids == [-2])
    }
}
