import Annals
import AnnalsStore
import AnnalsWire
import Foundation
import GRDBSQLite

/// Compares Annals with other software that records changes of SQLite files and applies them to other files.
///
/// Annals does more: it writes history, compares each old value and stores the data that the log needs. Options give the paths of
/// the extensions' libraries, which SQLite loads.
enum PeerBenchmarks {
    /// An extension, with the statement that registers a table and a closure that applies the changes of another file.
    struct Extension {
        var name: String
        var path: String
        var preparation: String
        /// Applies all changes of the author's file.
        var take: (_ reader: BareConnection, _ author: BareConnection) throws -> Void
        var budget: Double

        static func crSQLite(_ path: String) -> Extension {
            let columns = #""table", pk, cid, val, col_version, db_version, site_id, cl, seq"#
            return Extension(
                name: "cr-sqlite", path: path, preparation: "SELECT crsql_as_crr('item')",
                take: { reader, author in
                    try reader.run(
                        "INSERT INTO crsql_changes (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        forEachOf: "SELECT \(columns) FROM crsql_changes", in: author)
                }, budget: 5)
        }

        static func sqliteSync(_ path: String) -> Extension {
            let columns = "tbl, pk, col_name, col_value, col_version, db_version, site_id, cl, seq"
            return Extension(
                name: "sqlite-sync", path: path, preparation: "SELECT cloudsync_init('item')",
                take: { reader, author in
                    try reader.run(
                        "SELECT cloudsync_payload_decode(?)",
                        forEachOf: "SELECT cloudsync_payload_encode(\(columns)) FROM cloudsync_changes", in: author)
                }, budget: 60)
        }
    }

    static func run(_ scale: Scale, extensions: [Extension]) async throws -> [Benchmark] {
        var results: [Benchmark] = []
        if let session = SessionExtension() {
            results.append(try await capture(session, scale))
            results.append(try await apply(session, scale))
        }
        for peer in extensions { results.append(try await apply(peer, scale)) }
        return results
    }

    // MARK: The session extension

    /// Inserts into a tracked file, compared with inserts that a session records.
    private static func capture(_ session: SessionExtension, _ scale: Scale) async throws -> Benchmark {
        let rows = Rows(.text, count: scale.rows)
        var rounds: [Comparison.Round] = []
        for _ in 0..<scale.rounds {
            let folder = try BenchmarkFolder()
            let (tracked, plain) = (
                try rows.file(folder.file("tracked.db"), present: 0), try rows.file(folder.file("plain.db"), present: 0)
            )
            let store = try Store(path: folder.file("tracked.db"))
            _ = try await store.track(.all)
            var turns = Alternation()
            for chunk in Array(rows.keys.indices).chunks(of: 100) {
                try turns.take(
                    subject: { try insert(chunk, rows, tracked) },
                    baseline: { _ = try session.record(plain) { try insert(chunk, rows, plain) } })
            }
            rounds.append(turns.round)
            try store.close()
        }
        return Benchmark(
            name: "tracked inserts, 100 a transaction", against: "recorded by SQLite's session extension", budget: .none, work: scale.rows,
            comparison: Comparison(rounds: rounds))
    }

    private static func apply(_ session: SessionExtension, _ scale: Scale) async throws -> Benchmark {
        let pulled = try await Pulled(scale.rows)
        let author = try pulled.rows.file(pulled.fleet.folder.file("session.db"), present: 0)
        var changes: [[UInt8]] = []
        for chunk in Array(pulled.rows.keys.indices).chunks(of: 100) {
            changes.append(try session.record(author) { try insert(chunk, pulled.rows, author) })
        }
        let rounds = try await pulled.rounds(scale.rounds) { plain in
            try plain.execute("BEGIN IMMEDIATE")
            for change in changes { try session.apply(change, to: plain) }
            try plain.execute("COMMIT")
        }
        return Benchmark(
            name: "apply \(scale.rows) rows, 100 a transaction", against: "SQLite's session extension", budget: .none, work: scale.rows,
            comparison: Comparison(rounds: rounds))
    }

    // MARK: Extensions by path

    /// The extension's time divided by that of Annals. It uses fewer rows, because the extensions are slow.
    private static func apply(_ peer: Extension, _ scale: Scale) async throws -> Benchmark {
        let pulled = try await Pulled(scale.rows / 5)
        let author = try loaded(peer, pulled.fleet.folder.file("peer.db"), pulled.rows)
        for chunk in Array(pulled.rows.keys.indices).chunks(of: 100) { try insert(chunk, pulled.rows, author) }
        var number = 0
        let rounds = try await pulled.rounds(scale.rounds) { _ in
            number += 1
            let reader = try loaded(peer, pulled.fleet.folder.file("peer-reader\(number).db"), pulled.rows)
            try reader.execute("BEGIN")
            try peer.take(reader, author)
            try reader.execute("COMMIT")
            guard try reader.integer("SELECT count(*) FROM item") == Int64(pulled.rows.keys.count) else {
                throw BareConnection.Failure(description: "\(peer.name) did not apply the rows")
            }
        }
        return Benchmark(
            name: "\(peer.name)'s time to apply \(pulled.rows.keys.count) rows", against: "Annals", budget: .atLeast(peer.budget),
            work: pulled.rows.keys.count,
            comparison: Comparison(rounds: rounds.map { Comparison.Round(subject: $0.baseline, baseline: $0.subject) }))
    }

    private static func loaded(_ peer: Extension, _ path: String, _ rows: Rows) throws -> BareConnection {
        let connection = try BareConnection(path)
        var message: UnsafeMutablePointer<CChar>?
        sqlite3_enable_load_extension(connection.handle, 1)
        guard sqlite3_load_extension(connection.handle, peer.path, nil, &message) == SQLITE_OK else {
            defer { sqlite3_free(message) }
            throw BareConnection.Failure(description: "\(peer.path): \(message.map { String(cString: $0) } ?? "cannot be loaded")")
        }
        try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        try connection.execute(rows.schema)
        try connection.query(peer.preparation)
        return connection
    }

    // MARK: The same rows for each peer

    /// A reader and the entries that it has not applied: transactions of 100 inserts each.
    private struct Pulled {
        let rows: Rows
        let fleet: Fleet
        private let pages: [Page]

        init(_ count: Int) async throws {
            let rows = Rows(.text, count: count)
            self.rows = rows
            fleet = try await Fleet(rows, present: 0)
            try await fleet.clone("reader")
            try await fleet.write("author", Array(rows.keys.indices), perTransaction: 100) { try $0.run(Rows.insert, rows.row($1)) }
            try await fleet.sync("author", .pushOnly)
            pages = try await fleet.pages(after: "reader")
        }

        /// Runs the rounds. `other` is the baseline. It gets an empty file with the same table.
        func rounds(_ count: Int, _ other: (BareConnection) throws -> Void) async throws -> [Comparison.Round] {
            var rounds: [Comparison.Round] = []
            for number in 0..<count {
                let store = try Store(path: try fleet.folder.copy("reader.db", to: "round.db"))
                let plain = try rows.file(fleet.folder.file("plain\(number).db"), present: 0)
                var turns = Alternation()
                try await turns.take(
                    subject: { for page in pages { _ = try await store.apply(page) } }, baseline: { try other(plain) })
                rounds.append(turns.round)
                try store.close()
            }
            return rounds
        }
    }

    private static func insert(_ indices: ArraySlice<Int>, _ rows: Rows, _ connection: BareConnection) throws {
        try connection.execute("BEGIN IMMEDIATE")
        for index in indices { try connection.run(Rows.insert, rows.row(index)) }
        try connection.execute("COMMIT")
    }
}
