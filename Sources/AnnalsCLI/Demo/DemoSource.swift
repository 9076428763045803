import AnnalsCore
import AnnalsStore
import Foundation
import GRDB

/// The database at the start of a demonstration.
enum DemoSource {
    static func make(_ source: DemoStory.Source, at path: String) async throws {
        switch source {
        case .sample:
            let connection = try DatabaseQueue(path: path)
            defer { try? connection.close() }
            try await connection.write { db in try SampleShop.fill(db) }
        case .file(let original):
            try await copy(original, to: path)
        }
    }

    /// Copies one moment of the file, even while other programs write to it. The original is only read.
    private static func copy(_ original: String, to path: String) async throws {
        // Opening the file as a store gives a plain error if something is wrong with it.
        let store = try Stores.open(original)
        try await store.copy(to: path)
        try store.close()
        // The copy gets its own history. It must not act as the original in its space.
        let copy = try Stores.open(path)
        if try await copy.replicaState() != nil { try await copy.leave(force: true) }
        if try await !copy.status().tracked.isEmpty { _ = try await copy.untrack() }
        try copy.close()
    }

    static func plan(_ path: String, tracked: [String]) async throws -> DemoPlan {
        let connection = try DatabaseQueue(path: path)
        defer { try? connection.close() }
        return try await connection.writeWithoutTransaction { db in
            var plan: DemoPlan?
            try db.inTransaction {
                plan = try DemoPlanner(db, tracked: tracked).plan()
                return .rollback
            }
            guard let plan else { throw AnnalsError(.defect, operation: "demo", "no plan was made") }
            return plan
        }
    }
}
