import AnnalsCore
import AnnalsStore
import Foundation
import GRDB

/// The database that a demonstration begins with.
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

    /// A copy as of one moment, whoever writes meanwhile; the original is only read.
    private static func copy(_ original: String, to path: String) async throws {
        // Opening it as a store tells in plain words what is wrong with it.
        let store = try Stores.open(original)
        try await store.copy(to: path)
        try store.close()
        // The copy begins anew: it must not speak for the original in its space.
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
