import Annals
import Foundation
import Synchronization
import Testing

/// Annals' side of the page "Coming from Core Data or SwiftData", unchanged.
@Suite("Ten tasks of Core Data")
struct CoreDataSnippetTests {
    private struct Trip: Codable, Equatable, Identifiable, ActiveRecord {
        static let databaseTableName = "trip"
        var id: Int64?
        var name: String
        var km: Double
    }

    @Test("are done as the page says")
    func tasks() async throws {
        let folder = try ScratchFolder()
        let store = try open(URL(filePath: folder.file("trips.db")))
        try await store.write(author: "till 3") { db in
            try Trip(name: "Rome", km: 1_400).insert(in: db)
        }
        let trips = try await store.fetch(Trip.query.and(Column("km") > 100).descending("km").limit(20))
        let total = try await store.first(Trip.query.request.select(sum(Column("km")), as: Double.self))
        #expect(trips.map(\.name) == ["Rome"] && total == 1_400)
        let beginning = try await store.latestToken()
        try await importRows(store)
        #expect(try await store.count(Trip.query) == 2)
        let watching = Task { try await watch(store) }
        try await watching.value
        try await edit(store)
        #expect(try await store.fetch(Trip.query.ascending("name")).map(\.name) == ["Oslo", "Roma"])
        var token = beginning
        let handled = Mutex(0)
        @Sendable func handle(_ identifier: PersistentIdentifier, _ old: Value?, _ new: Value?) { handled.withLock { $0 += 1 } }
        try await store.forEachChange(HistoryRequest(after: token)) { transaction, change in
            handle(change.identifier, change["name"]?.old, change["name"]?.new)
        }
        token = try await store.latestToken()
        #expect(try await token == store.latestToken() && handled.withLock { $0 } == 3)
        try await store.undo(by: "ann")
        #expect(try await store.fetch(Trip.query.ascending("name")).map(\.name) == ["Oslo", "Rome"])
        try await store.execute(BatchDeleteRequest(Trip.self) { $0.filter(Column("km") < 10) })
        #expect(try await store.fetch(Trip.query).map(\.name) == ["Rome"])
    }

    private func open(_ url: URL) throws -> Store {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(sql: "CREATE TABLE trip (id INTEGER PRIMARY KEY, name TEXT UNIQUE, km REAL)")
        }
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.migrator = migrator
        configuration.tables = .all
        let store = try Store(url: url, configuration: configuration)
        return store
    }

    private func importRows(_ store: Store) async throws {
        let rows: [[String: (any DatabaseValueConvertible & Sendable)?]] = [["name": "Rome", "km": 1_400.5], ["name": "Oslo", "km": 9]]
        let request = BatchInsertRequest(Trip.self, rows: rows, onConflict: .update(["km"], of: ["name"]))
        try await store.execute(request, author: "import")
    }

    private func watch(_ store: Store) async throws {
        struct Seen: Error {}
        func show(_ snapshot: FetchedResultsSnapshot<SingleSection, Trip>) throws {
            #expect(snapshot.count == 2)
            throw Seen()
        }
        await #expect(throws: Seen.self) {
            for try await snapshot in FetchedResults(Trip.query.ascending("name"), in: store) { try show(snapshot) }
        }
    }

    private func edit(_ store: Store) async throws {
        let context = try await store.editContext(author: "ann")
        guard let trip = try await context.fetchOne(Trip.filter(Column("name") == "Rome")) else { return }
        let sheet = context.child()
        try sheet.edit(trip) { $0.name = "Roma" }
        try await sheet.save()
        try await context.save()
    }

    @Test("the list of the page is the one of the test above")
    func list() async throws {
        let folder = try ScratchFolder()
        let store = try open(URL(filePath: folder.file("trips.db")))
        let shown = Mutex(0)
        @Sendable func show(_ snapshot: FetchedResultsSnapshot<SingleSection, Trip>) { shown.withLock { $0 += 1 } }
        let watching = Task {
            for try await snapshot in FetchedResults(Trip.query.ascending("name"), in: store) {
                show(snapshot)
            }
        }
        while shown.withLock({ $0 }) == 0 { await Task.yield() }
        watching.cancel()
        try await watching.value
    }
}
