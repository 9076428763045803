import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// A conflict in a few lines: the work of `first` is in the log before `second`, which has not seen it, rebases its own work. At the
/// end the rows and journals of all replicas are compared, and every constraint is checked.
struct Story {
    let world: SyncedStores

    /// The replica with the later time. The order of the log does not change.
    enum Later { case first, second }

    init(_ schema: String, _ policies: MergePolicies = MergePolicies(), replicas: Int = 2) async throws {
        world = try await SyncedStores(replicas: replicas, schema: schema, policies: policies)
    }

    /// One transaction of the replica, as another program would write it.
    func write(_ replica: Int, _ sql: String) async throws {
        world.clock.advance(.seconds(1))
        try await world.stores[replica].write(author: "r\(replica)") { db in try db.execute(sql: sql) }
    }

    /// Pulls and rebases, without sending.
    func pull(_ replica: Int) async throws {
        try await world.sync(replica, .pullOnly)
    }

    /// Both write one transaction each, unseen by the other. Then the first is sent, and the second is rebased.
    static func conflict(
        _ schema: String, first: String, second: String, later: Later = .second, _ policies: MergePolicies = MergePolicies()
    ) async throws -> Outcome {
        try await conflict(schema, first: [first], second: [second], later: later, policies)
    }

    static func conflict(
        _ schema: String, first: [String], second: [String], later: Later = .second, _ policies: MergePolicies = MergePolicies()
    ) async throws -> Outcome {
        let story = try await Story(schema, policies)
        if later == .second { for sql in first { try await story.write(0, sql) } }
        for sql in second { try await story.write(1, sql) }
        if later == .first { for sql in first { try await story.write(0, sql) } }
        try await story.world.sync(0)
        try await story.world.sync(1)
        return try await story.end()
    }

    /// Syncs all replicas, adds a fresh clone, and compares.
    func end() async throws -> Outcome {
        try await world.settle()
        try await world.addClone("fresh-\(ReplicaID.random())")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "replicas differ")
        for store in world.stores {
            let broken = try await store.read { db in
                try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").count
                    + (String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok" ? 0 : 1)
            }
            #expect(broken == 0, "a constraint is broken")
        }
        let journals = try await world.stores.dropLast().map { $0 }.asyncMap { store in
            try await store.conflicts().sorted { ($0.position, $0.id) < ($1.position, $1.id) }.map(\.entry)
        }
        #expect(Set(journals).count == 1, "journals differ")
        return Outcome(store: world.stores[0], journal: journals.first ?? [])
    }
}

/// The result, which is equal on every replica.
struct Outcome {
    let store: Store
    let journal: [JournalEntry]

    /// Rows as `1|a|NULL`, in the order of the table's first columns.
    func rows(_ table: String) async throws -> [String] {
        try await store.read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM \(table)").map { row in row.databaseValues.map(Self.text).joined(separator: "|") }
                .sorted()
        }
    }

    private static func text(_ value: DatabaseValue) -> String {
        switch value.storage {
        case .null: "NULL"
        case .int64(let integer): String(integer)
        case .double(let real): String(real)
        case .string(let string): string
        case .blob(let data): "x'\(Hexadecimal.encode([UInt8](data)))'"
        }
    }

    /// The last position of the log.
    func position() async throws -> Int64? {
        try await store.replicaState()?.position.rawValue
    }

    /// Entries as `update person(1) city: A → stored B, incoming C; incoming by lastWriterWins`.
    var lines: [String] {
        journal.map { entry in
            let place = entry.columns.isEmpty ? "" : " " + entry.columns.joined(separator: ",")
            let base = entry.base.map { "\(Self.text($0)) → " } ?? ""
            let sides = "stored \(Self.text(entry.stored)), incoming \(Self.text(entry.incoming))"
            return "\(entry.kind) \(entry.table)(\(Self.text(entry.key)))\(place): \(base)\(sides); \(entry.winner) by \(entry.policy)"
        }
    }

    private static func text(_ values: [Value]?) -> String {
        guard let values else { return "–" }
        return values.map { value in
            switch value {
            case .null: "NULL"
            case .integer(let integer): String(integer)
            case .real(let real): String(real)
            case .text(let text): text.string ?? "?"
            case .blob(let blob): "x'\(Hexadecimal.encode(blob.bytes))'"
            }
        }.joined(separator: "|")
    }
}
