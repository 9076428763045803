import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

/// A refused entry is described completely: its position, its author, and the rule that it breaks.
@Suite struct RefusedEntryTests {
    fileprivate static let schema = """
        CREATE TABLE shelf(name TEXT PRIMARY KEY NOT NULL, room TEXT);
        CREATE TABLE book(
            id TEXT PRIMARY KEY NOT NULL, title TEXT UNIQUE, pieces INTEGER CHECK(pieces >= 0), note TEXT NOT NULL DEFAULT '',
            shelf TEXT REFERENCES shelf(name));
        INSERT INTO shelf VALUES('shelf-a', 'attic'), ('shelf-b', 'bath');
        INSERT INTO book VALUES('book-1', 'title-1', 1, 'note-1', 'shelf-a'), ('book-2', 'title-2', 2, 'note-2', 'shelf-b');
        """

    /// Makes a wrong entry: a write, and replacements in the outbox before the push.
    struct Forgery: Sendable, CustomTestStringConvertible {
        var rule: RefusedEntry.Rule
        var table: String? = "book"
        var sql: String
        var replacing: [(String, String)] = []
        var checks = true

        var testDescription: String { rule.rawValue }
    }

    fileprivate static let forgeries = [
        Forgery(rule: .check, sql: "UPDATE book SET pieces = -1 WHERE id = 'book-1'", checks: false),
        Forgery(rule: .check, sql: "INSERT INTO book(id, pieces) VALUES('book-3', -1)", checks: false),
        Forgery(
            rule: .foreignKey, sql: "UPDATE book SET shelf = 'shelf-b' WHERE id = 'book-1'", replacing: [("shelf-b", "shelf-z")]),
        Forgery(rule: .unique, sql: "UPDATE book SET title = 'title-9' WHERE id = 'book-1'", replacing: [("title-9", "title-2")]),
        Forgery(
            rule: .missingRow, sql: "UPDATE book SET note = 'note-77' WHERE id = 'book-1'", replacing: [("book-1", "book-9")]),
        Forgery(
            rule: .otherValue, sql: "UPDATE book SET note = 'note-77' WHERE id = 'book-1'", replacing: [("note-1", "note-8")]),
    ]

    /// Replica 0 pushes one wrong entry, at position 3, after a correct one.
    fileprivate func world(_ forgery: Forgery) async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].write { try $0.execute(sql: "UPDATE shelf SET room = 'cellar'") }
        try await world.sync(0)
        try await world.sync(1)
        try world.outside(0, (forgery.checks ? "" : "PRAGMA ignore_check_constraints = ON;") + forgery.sql)
        _ = try await world.stores[0].prepareOutbox()
        try Self.forge(world.stores[0].path, forgery.replacing)
        try await world.sync(0, .pushOnly)
        return world
    }

    private static func forge(_ path: String, _ replacing: [(String, String)]) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            for (sequence, body) in try Row.fetchAll(db, sql: "SELECT sequence, body FROM annals_outbox").map({
                ($0[0] as Int64, $0[1] as Data)
            }) {
                var body = body
                for (old, new) in replacing {
                    while let range = body.range(of: Data(old.utf8)) { body.replaceSubrange(range, with: Data(new.utf8)) }
                }
                try db.execute(sql: "UPDATE annals_outbox SET body = ? WHERE sequence = ?", arguments: [body, sequence])
                // A footprint that claims less than the body changes would be another error.
                guard !replacing.isEmpty else { continue }
                try db.execute(
                    sql: "UPDATE annals_outbox SET footprint = ? WHERE sequence = ?",
                    arguments: [Data(Footprint.everything.encode()), sequence])
            }
        }
        try queue.close()
    }

    fileprivate func failure(_ body: () async throws -> Void) async throws -> AnnalsError {
        do {
            try await body()
        } catch {
            return try #require(error as? AnnalsError, "\(error)")
        }
        throw AnnalsError(.defect, "it is applied")
    }

    private func expect(_ error: AnnalsError, _ forgery: Forgery, _ author: ReplicaID) throws {
        let entry = try #require(error.entry, "\(error)")
        #expect(entry.position == Position(3) && entry.rule == forgery.rule && entry.author == author, "\(error)")
        #expect(entry.authorName == "r0" && entry.transaction != nil && entry.digest != nil, "\(entry)")
        #expect(entry.table == forgery.table && entry.keyColumns == ["id"], "\(entry)")
        #expect(error.message.contains("position 3 ") && error.message.contains("\(author)") && error.message.contains("r0"), "\(error)")
        expectHints(error)
        for value in ["attic", "title-1", "title-2", "note-77", "book-1", "shelf-z"] { #expect(!error.description.contains(value)) }
    }

    private func expectHints(_ error: AnnalsError) {
        #expect(error.hint?.contains("relay's operator to void") == true, "\(error)")
        #expect(error.hint?.contains("annals ") == false, "\(error)")
        #expect(error.commandHint?.contains("annals relay void 3 --space shop") == true, "\(error)")
    }

    @Test(arguments: forgeries)
    func `a receiver and a clone name a refused entry alike`(forgery: Forgery) async throws {
        let world = try await world(forgery)
        let author = try await world.identities()[0]
        let digest = try await world.stores[1].digest()
        try expect(try await failure { try await world.sync(1) }, forgery, author)
        #expect(try await world.stores[1].digest() == digest)
        try expect(try await failure { try await world.addClone("fresh") }, forgery, author)
        let path = world.folder.file("then.db")
        try expect(
            try await failure { _ = try await world.joining("then").replay(to: Position(3), output: path) }, forgery, author)
        // The hint of the error is right.
        _ = try await world.relay.void(Position(3))
        try await world.sync(1)
        try await world.addClone("after")
    }

    private static func damaged(_ batch: [UInt8], _ rule: RefusedEntry.Rule) throws -> [UInt8] {
        var bytes = batch
        switch rule {
        case .badSignature:
            // The digest in the clear part, with a correct checksum.
            let digest = try BatchHeader.parse(batch).certificates[0].digest.bytes
            guard let start = batch.indices.first(where: { batch[$0...].starts(with: digest) }) else { return batch }
            bytes[start] ^= 1
        case .badValue: bytes[5] = 0xEE
        default: bytes[bytes.count - 1] ^= 1
        }
        return rule == .damagedBatch ? bytes : AlteredRelay.checksummed(bytes)
    }

    @Test(arguments: [RefusedEntry.Rule.damagedBatch, .badSignature, .badValue])
    func `an entry whose bytes are wrong is named with its position and its author`(rule: RefusedEntry.Rule) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].write { try $0.execute(sql: "UPDATE shelf SET room = 'cellar'") }
        try await world.sync(0)
        try await world.sync(1)
        try await world.stores[0].write { try $0.execute(sql: "UPDATE shelf SET room = 'garden'") }
        try await world.sync(0)
        let relay = AlteredRelay(
            base: world.relay,
            page: { page, _ in
                guard let place = page.frames.firstIndex(where: { $0.firstPosition == Position(3) }) else { return }
                page.frames[place].batch = try Self.damaged(page.frames[place].batch, rule)
            })
        for (place, error) in [
            try await failure { try await world.sync(1, over: relay) },
            try await failure { _ = try await world.joining("c", over: relay).clone(to: world.folder.file("c.db")) },
        ].enumerated() {
            let entry = try #require(error.entry, "\(error)")
            #expect(error.code == .corruptBatch && entry.rule == rule && entry.position == Position(3), "\(error)")
            #expect(error.message.contains("position 3"), "\(error)")
            expectHints(error)
            guard rule == .badSignature else { continue }
            #expect(try await entry.author == world.identities()[0])
            // A clone has no history, so it does not know the author's name.
            if place == 0 { #expect(error.message.contains("r0"), "\(error)") }
        }
    }
}

/// The report of a receiver to the relay about a refused entry.
extension RefusedEntryTests {
    @Test func `a receiver reports a refused entry, with its table`() async throws {
        let world = try await world(Self.forgeries[0])
        _ = try await failure { try await world.sync(1) }
        _ = try await failure { try await world.sync(1) }
        let reports = try await world.relay.reports()
        #expect(reports.map(\.position) == [Position(3)] && reports[0].table == "book" && reports[0].rule == "CHECK", "\(reports)")
        #expect(try await reports[0].author == world.identities()[0])
    }

    @Test func `a report that fails changes nothing in what sync says`() async throws {
        let world = try await world(Self.forgeries[0])
        let deaf = AlteredRelay.failing(world.relay, .report, error: .unanswered("no answer"))
        let error = try await failure { try await world.sync(1, over: deaf) }
        #expect(error.code == .diverged && error.entry?.position == Position(3), "\(error)")
        #expect(try await world.relay.reports().isEmpty)
    }

    @Test func `a receiver of a sealed space reports no names`() async throws {
        let ring = try SpaceKeyRing(text: SpaceKey.random().line)
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, spaceKeys: ring)
        try world.outside(0, "PRAGMA ignore_check_constraints = ON; UPDATE book SET pieces = -1")
        try await world.sync(0)
        let error = try await failure { try await world.sync(1) }
        #expect(error.entry?.table == "book")
        let reports = try await world.relay.reports()
        #expect(reports.map(\.position) == [Position(2)] && reports[0].table == nil && reports[0].rule == "CHECK", "\(reports)")
    }
}
