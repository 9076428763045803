package import RelayLog
internal import Synchronization

/// Snapshots as rows, so that every relay of the database has them. Pieces of one mebibyte, in order.
package final class PostgresSnapshotFiles: SnapshotFiles {
    private let lane: Lane
    private let now: @Sendable () -> Int64

    static let pieceBytes = 1 << 20
    /// How long the bytes of a dropped snapshot stay for its readers; milliseconds.
    static let graceMilliseconds: Int64 = 3_600_000
    /// The age from which an unrecorded snapshot is a leftover; milliseconds.
    static let leftoverMilliseconds: Int64 = 86_400_000

    init(url: String, now: @escaping @Sendable () -> Int64) {
        lane = Lane("annals.relay.snapshots", url)
        self.now = now
    }

    private static let insertion = "INSERT INTO annals_snapshot_files(name, created) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING"

    package func create() throws -> any NewSnapshotFile {
        let name = "upload-" + String(UInt64.random(in: 0 ... .max), radix: 36)
        try write { [now] in try $0.execute(Self.insertion, [name, now()]) }
        return NewFile(files: self, name: name)
    }

    package func open(_ name: String) throws -> any KeptSnapshotFile {
        let found = try write { try $0.row("SELECT name FROM annals_snapshot_files WHERE name = ?1 AND removed IS NULL", [name]) }
        guard found != nil else { throw RelayLogError.storage("the snapshot \(name) is missing") }
        return KeptFile(files: self, name: name)
    }

    package func open(_ name: String, in db: any LogConnection) throws -> any SnapshotBytes {
        guard try db.row("SELECT name FROM annals_snapshot_files WHERE name = ?1", [name]) != nil else {
            throw RelayLogError.storage("the snapshot \(name) is missing")
        }
        return StateFile(db: db, name: name)
    }

    /// All pieces except the last have the same length.
    package func byteCount(of name: String, in db: any LogConnection) -> Int64? {
        let sql = """
            SELECT coalesce(p.number, 0), coalesce(length(p.bytes), 0)
            FROM annals_snapshot_files AS f LEFT JOIN annals_snapshot_pieces AS p ON p.file = f.name
            WHERE f.name = ?1 ORDER BY p.number DESC LIMIT 1
            """
        guard let row = try? db.row(sql, [name]), let number = try? row.integer(0), let length = try? row.integer(1) else { return nil }
        // No recorded snapshot has a piece with a number outside this range.
        guard (0...(LogRow.reach / Int64(Self.pieceBytes))).contains(number) else { return nil }
        return number * Int64(Self.pieceBytes) + length
    }

    /// If the removal fails, the file is a leftover and is removed later.
    package func remove(_ name: String) {
        try? write { [now] db in
            try db.execute("UPDATE annals_snapshot_files SET removed = ?1 WHERE name = ?2", [now(), name])
            try Self.drop("removed < ?1", now() - Self.graceMilliseconds, db)
        }
    }

    package func names() throws -> [String] {
        try write { db in
            try db.rows("SELECT name FROM annals_snapshot_files WHERE removed IS NULL", []).map { try $0.text(0) }
        }
    }

    package func removeLeftovers(except kept: Set<String>) throws -> [String] {
        try write { [now] db in
            let old = try db.rows(
                "SELECT name FROM annals_snapshot_files WHERE created < ?1 AND removed IS NULL", [now() - Self.leftoverMilliseconds])
            let leftovers = try old.map { try $0.text(0) }.filter { !kept.contains($0) }
            for name in leftovers { try db.execute("UPDATE annals_snapshot_files SET removed = ?1 WHERE name = ?2", [now(), name]) }
            try Self.drop("removed < ?1", now() - Self.graceMilliseconds, db)
            return leftovers
        }
    }

    func close() { lane.close() }

    private static func drop(_ condition: String, _ argument: Int64, _ db: PostgresConnection) throws {
        try db.execute(
            "DELETE FROM annals_snapshot_pieces WHERE file IN (SELECT name FROM annals_snapshot_files WHERE \(condition))", [argument])
        try db.execute("DELETE FROM annals_snapshot_files WHERE \(condition)", [argument])
    }

    fileprivate func write<T: Sendable>(_ body: @Sendable (PostgresConnection) throws -> T) throws -> T {
        try lane.runNow { connection in try connection.transaction { try body(connection) } }
    }

    private final class NewFile: NewSnapshotFile {
        private let files: PostgresSnapshotFiles
        private let name: String
        private let state = Mutex(State())

        private struct State {
            var rest: [UInt8] = []
            var count = 0
        }

        init(files: PostgresSnapshotFiles, name: String) {
            self.files = files
            self.name = name
        }

        func write(_ bytes: [UInt8]) throws {
            try state.withLock { state in
                state.rest += bytes
                while state.rest.count >= PostgresSnapshotFiles.pieceBytes {
                    try add(Array(state.rest.prefix(PostgresSnapshotFiles.pieceBytes)), &state)
                    state.rest.removeFirst(PostgresSnapshotFiles.pieceBytes)
                }
            }
        }

        /// Repeating this is safe, because the connection may be lost before the answer.
        private func add(_ piece: [UInt8], _ state: inout State) throws {
            let (name, number) = (name, state.count)
            try files.write { db in
                let sql = """
                    INSERT INTO annals_snapshot_pieces(file, number, bytes) VALUES (?1, ?2, ?3)
                    ON CONFLICT (file, number) DO UPDATE SET bytes = excluded.bytes
                    """
                try db.execute(sql, [name, number, piece])
            }
            state.count += 1
        }

        func keep(as lasting: String) throws {
            try state.withLock { state in
                if !state.rest.isEmpty { try add(state.rest, &state) }
                state.rest = []
            }
            let name = name
            try files.write { [now = files.now] db in
                try db.execute(PostgresSnapshotFiles.insertion, [lasting, now()])
                try db.execute("UPDATE annals_snapshot_pieces SET file = ?1 WHERE file = ?2", [lasting, name])
                try db.execute("DELETE FROM annals_snapshot_files WHERE name = ?1", [name])
            }
        }

        func abandon() { files.remove(name) }
    }

    private struct KeptFile: KeptSnapshotFile {
        let files: PostgresSnapshotFiles
        let name: String

        func read(at offset: Int64, count: Int) throws -> [UInt8] {
            try files.write { [name] db in try PostgresSnapshotFiles.read(name, at: offset, count: count, db) }
        }
    }

    /// Reads in one state of the database, independent of later removals.
    private struct StateFile: SnapshotBytes {
        let db: any LogConnection
        let name: String

        func read(at offset: Int64, count: Int) throws -> [UInt8] {
            try PostgresSnapshotFiles.read(name, at: offset, count: count, db)
        }
    }

    private static func read(_ name: String, at offset: Int64, count: Int, _ db: any LogConnection) throws -> [UInt8] {
        let piece = Int64(pieceBytes)
        let (first, last) = (offset / piece, (offset + Int64(count) - 1) / piece)
        let sql = "SELECT bytes FROM annals_snapshot_pieces WHERE file = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number"
        let bytes = try db.rows(sql, [name, first, last]).flatMap { try $0.bytes(0) }
        return Array(bytes.dropFirst(Int(offset - first * piece)).prefix(count))
    }
}
