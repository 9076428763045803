import Annals
import Foundation
import Testing

@Suite("A copy of a store")
struct CopyTests {
    private let folder: ScratchFolder
    private let store: Store

    init() async throws {
        folder = try ScratchFolder()
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        store = try Store(path: folder.file("shop.db"), configuration: configuration)
        try await store.write { db in try db.execute(sql: "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL)") }
        try await store.track(.all)
        try await store.write { db in try db.execute(sql: "INSERT INTO t VALUES ('a')") }
    }

    private func refusal(_ body: () async throws -> Void) async -> AnnalsError? {
        await #expect(throws: AnnalsError.self) { try await body() }
    }

    @Test("is a file with its rows and history")
    func whole() async throws {
        let path = folder.file("copy.db")
        try await store.copy(to: path)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("copy.db") } == ["copy.db"])
        let copy = try Store(path: path)
        #expect(try await copy.latestToken() == store.latestToken())
        #expect(try await copy.digest() == store.digest())
    }

    @Test("replaces what is there only when told to")
    func replacing() async throws {
        let path = folder.file("precious.db")
        let precious = try DatabaseQueue(path: path)
        try await precious.write { db in try db.execute(sql: "CREATE TABLE precious (id); INSERT INTO precious VALUES (1)") }
        let error = await refusal { try await store.copy(to: path) }
        #expect(error?.code == .cannotCreate)
        #expect(error?.message == "\(path) already exists")
        #expect(try await precious.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM precious") } == 1)
        try precious.close()
        try await store.copy(to: path, force: true)
        #expect(try await Store(path: path).latestToken() == store.latestToken())
    }

    @Test("never takes the place of the store itself")
    func itself() async throws {
        let link = folder.file("link.db")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: store.path)
        for path in [store.path, link] {
            let error = await refusal { try await store.copy(to: path, force: true) }
            #expect(error?.message == "\(path) is the store itself")
        }
    }

    @Test("that cannot be made is named")
    func impossible() async throws {
        let path = folder.file("none/copy.db")
        let error = await refusal { try await store.copy(to: path) }
        #expect(error?.code == .cannotCreate)
        #expect(error?.message.contains(path) == true)
    }

    @Test("of a store in memory is a file")
    func memory() async throws {
        let memory = try Store(inMemory: nil)
        try await memory.write { db in try db.execute(sql: "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL)") }
        try await memory.track(.all)
        try await memory.copy(to: folder.file("memory.db"))
        #expect(try await Store(path: folder.file("memory.db")).status().tracked == ["t"])
    }
}
