import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Synchronization
import Testing

/// The permissions of files that hold rows. In an encrypted space only their user may read them.
@Suite struct FileModeTests {
    private static func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    private func world(isSealed: Bool) async throws -> SyncedStores {
        // Most systems have this mask. Without it the test would show nothing.
        umask(0o022)
        return try await SyncedStores(
            replicas: 1, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')",
            spaceKeys: isSealed ? SpaceKeyRing(text: SpaceKey.random().line) : nil)
    }

    @Test(
        "a clone, what lies beside it and what is made from it are as readable as the space is", arguments: [(true, 0o600), (false, 0o644)])
    func clone(isSealed: Bool, expected: Int) async throws {
        let world = try await world(isSealed: isSealed)
        let path = world.folder.file("clone.db")
        _ = try await world.joining("clone").clone(to: path)
        #expect(try Self.mode(path) == expected)
        let store = try Store(path: path, configuration: world.configuration("clone"))
        try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES('b', 'second')") }
        for suffix in ["-wal", "-shm"] { #expect(try Self.mode(path + suffix) == expected, "\(suffix)") }
        let (copy, replay, space) = (world.folder.file("copy.db"), world.folder.file("replay.db"), world.folder.file("space.db"))
        try await store.copy(to: copy)
        _ = try await store.replay(to: store.latestToken(), output: replay)
        _ = try await world.joining("replay").replay(to: Position(1), output: space)
        for file in [copy, replay, space] { #expect(try Self.mode(file) == expected, "\(file)") }
        try store.close()
    }

    @Test(arguments: [true, false])
    func `nobody else looks into the folder of what is on its way`(isSealed: Bool) async throws {
        let world = try await world(isSealed: isSealed)
        let modes = Mutex<[String: Int]>([:])
        let folder = world.folder
        let joining = Joining(
            transport: world.relay, address: "http://127.0.0.1:1", space: world.space, name: "clone",
            configuration: world.configuration("clone"), environment: world.environment
        ) { _, _ in
            for name in (try? FileManager.default.subpathsOfDirectory(atPath: folder.path)) ?? [] where name.hasPrefix(".annals-") {
                guard let mode = try? Self.mode(folder.file(name)) else { continue }
                modes.withLock { $0[name.contains("/") ? URL(fileURLWithPath: name).lastPathComponent : "folder"] = mode }
            }
        }
        _ = try await joining.clone(to: folder.file("clone.db"))
        let found = modes.withLock { $0 }
        #expect(found["folder"] == 0o700 && found["annals-work.lock"] == 0o600, "\(found)")
        #expect(found["store.db"] == (isSealed ? 0o600 : 0o644), "\(found)")
    }
}
