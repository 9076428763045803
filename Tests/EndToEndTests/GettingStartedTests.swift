import Annals
import Foundation
import Testing

private struct Note: Codable, Identifiable, FetchableRecord, PersistableRecord {
    var id = UUID().uuidString
    var title: String
    var isDone = false
}

private func open(_ path: String) async throws -> Store {
    var configuration = Store.Configuration()
    configuration.createIfMissing = true
    let store = try Store(path: path, configuration: configuration)
    try await store.write { db in
        try db.create(table: "note", options: .ifNotExists) { table in
            table.primaryKey("id", .text)
            table.column("title", .text).notNull()
            table.column("isDone", .boolean).notNull()
        }
    }
    try await store.track(.all)
    return store
}

/// The steps of the article GettingStarted, with a relay of the test.
@Suite("The guide from an empty folder to two stores in step", .timeLimit(.minutes(20)))
struct GettingStartedTests {
    @Test("its examples do what it says")
    func examples() async throws {
        try await Workshop.with { workshop in
            let (relay, _) = try await workshop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            let folder = workshop.path

            let shop = try await open(folder + "/shop.db")
            try await shop.write(author: "Vera") { db in try Note(title: "Buy milk").insert(db) }

            let address = try SpaceAddress("notes", at: relay, as: "shop")
            let shopAgent = try SyncAgent(store: shop, joining: address)
            try await shopAgent.sync()

            let laptop = try await open(folder + "/laptop.db")
            var there = address
            there.name = "laptop"
            let laptopAgent = try SyncAgent(store: laptop, joining: there, existing: .theirs)
            try await laptopAgent.sync()

            try await shop.write(author: "Vera") { db in try db.execute(sql: "UPDATE note SET title = 'Buy oat milk'") }
            try await laptop.write(author: "Ann") { db in try db.execute(sql: "UPDATE note SET isDone = 1") }
            try await shopAgent.sync()
            try await laptopAgent.sync()
            try await shopAgent.sync()
            let notes = try await shop.read { db in try Note.fetchAll(db) }
            print(notes)

            #expect(notes.map(\.title) == ["Buy oat milk"] && notes.allSatisfy(\.isDone))
            #expect(try await shop.digest() == laptop.digest())
        }
    }
}
