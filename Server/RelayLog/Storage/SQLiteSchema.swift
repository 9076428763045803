internal import AnnalsCore
internal import GRDB

/// The tables of DATA/relay.db, by the format that added them.
enum SQLiteSchema {
    static let formatVersion = 12

    /// Migrates the file to the format of this program. Throws `AnnalsError` with `.newerFormat`.
    ///
    /// - Parameter keep: called before data of an older format are changed, while nobody else can write. If it throws,
    ///   nothing is changed.
    static func migrate(_ db: Database, keep: (_ format: Int) throws -> Void = { _ in }) throws {
        let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard version <= formatVersion else {
            throw AnnalsError(
                .newerFormat, operation: "relay", "the relay's data has format \(version), this program supports up to \(formatVersion)",
                hint: "Serve it with a newer version of annals")
        }
        guard version < formatVersion else { return }
        try db.inTransaction(.exclusive) {
            // Another process may have migrated the file before this one got the lock.
            let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
            if version > 0, version < formatVersion { try keep(version) }
            if version < 1 {
                try db.execute(sql: log)
                try db.execute(sql: tokens)
            }
            if version < 2 { try db.execute(sql: parts) }
            if version < 3 {
                try db.execute(sql: "ALTER TABLE annals_runs ADD COLUMN log_digest BLOB")
                try RunningDigests.fill(SQLiteConnection(db: db))
            }
            if version < 4 { try db.execute(sql: purge) }
            if version < 5 { try db.execute(sql: "ALTER TABLE annals_spaces ADD COLUMN part_changes INTEGER NOT NULL DEFAULT 0") }
            if version < 6 { try db.execute(sql: operators) }
            if version < 7 { try db.execute(sql: owners) }
            // Each acknowledgement of another owner's replica queries which tokens are valid.
            if version < 8 { try db.execute(sql: "CREATE INDEX annals_tokens_holder ON annals_tokens(holder)") }
            if version < 9 { try db.execute(sql: quotas) }
            if version < 10 { try db.execute(sql: reports) }
            if version < 11 { try db.execute(sql: checks) }
            if version < 12 { try db.execute(sql: quarantines) }
            if version < formatVersion { try db.execute(sql: "PRAGMA user_version = \(formatVersion)") }
            return .commit
        }
    }

    private static let log = """
        -- floor: footprints up to it were dropped once; what was stale for that must stay so, whatever is loaded later.
        CREATE TABLE annals_spaces(
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            lineage BLOB NOT NULL,
            head INTEGER NOT NULL DEFAULT 0,
            horizon INTEGER NOT NULL DEFAULT 0,
            floor INTEGER NOT NULL DEFAULT 0,
            created INTEGER NOT NULL
        ) STRICT;

        -- counter and digest are of the last accepted transaction; position is the newest the replica has acknowledged.
        CREATE TABLE annals_replicas(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            replica BLOB NOT NULL,
            name TEXT NOT NULL DEFAULT '',
            counter INTEGER NOT NULL DEFAULT 0,
            digest BLOB NOT NULL,
            position INTEGER NOT NULL DEFAULT 0,
            seen INTEGER NOT NULL,
            UNIQUE (space, replica)
        ) STRICT;

        CREATE TABLE annals_runs(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            count INTEGER NOT NULL,
            first_index INTEGER NOT NULL,
            replica INTEGER NOT NULL REFERENCES annals_replicas(id),
            counter INTEGER NOT NULL,
            received INTEGER NOT NULL,
            batch BLOB NOT NULL,
            UNIQUE (space, position),
            UNIQUE (replica, counter)
        ) STRICT;

        CREATE TABLE annals_snapshots(
            space INTEGER PRIMARY KEY REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            digest BLOB NOT NULL,
            file TEXT NOT NULL,
            created INTEGER NOT NULL
        ) STRICT;
        """

    private static let tokens = """
        CREATE TABLE annals_tokens(
            id INTEGER PRIMARY KEY,
            hash BLOB NOT NULL UNIQUE,
            label TEXT NOT NULL,
            space TEXT,
            scope TEXT NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER,
            revoked INTEGER
        ) STRICT;
        """

    private static let parts = """
        -- Parts before the last of transactions that are not in the log yet; at most one transaction a replica.
        CREATE TABLE annals_parts(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            replica BLOB NOT NULL,
            part INTEGER NOT NULL,
            counter INTEGER NOT NULL,
            digest BLOB NOT NULL,
            received INTEGER NOT NULL,
            batch BLOB NOT NULL,
            UNIQUE (space, replica, part)
        ) STRICT;
        """

    /// Format 9: the credential that named a replica that never pushed, whether purges and voids wait for the replica,
    /// and the creator of each space.
    private static let quotas = """
        ALTER TABLE annals_replicas ADD COLUMN sighted_by TEXT;
        ALTER TABLE annals_replicas ADD COLUMN holds INTEGER NOT NULL DEFAULT 1;
        CREATE INDEX annals_replicas_sighted ON annals_replicas(space, sighted_by);
        ALTER TABLE annals_spaces ADD COLUMN creator TEXT;
        CREATE INDEX annals_spaces_creator ON annals_spaces(creator);
        """

    /// Format 10: reports of entries that receivers cannot apply. An owner reports an entry once. On an open relay all
    /// callers are one owner with an empty name.
    private static let reports = """
        CREATE TABLE annals_reports(
            space INTEGER NOT NULL REFERENCES annals_spaces(id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            owner TEXT NOT NULL,
            digest BLOB NOT NULL,
            rule TEXT NOT NULL,
            table_name TEXT,
            time INTEGER NOT NULL,
            PRIMARY KEY (space, position, owner)
        ) STRICT, WITHOUT ROWID;
        """

    /// Format 11: the owner of each snapshot, and the checks by replicas of other owners.
    private static let checks = """
        ALTER TABLE annals_snapshots ADD COLUMN owner TEXT NOT NULL DEFAULT '';
        CREATE TABLE annals_snapshot_checks(
            space INTEGER NOT NULL REFERENCES annals_spaces(id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            owner TEXT NOT NULL,
            digest BLOB NOT NULL,
            good INTEGER NOT NULL,
            time INTEGER NOT NULL,
            PRIMARY KEY (space, position, owner)
        ) STRICT, WITHOUT ROWID;
        """

    /// Format 12: quarantined owners, with the time of the quarantine.
    private static let quarantines = """
        CREATE TABLE annals_quarantines(
            space INTEGER NOT NULL REFERENCES annals_spaces(id) ON DELETE CASCADE,
            owner TEXT NOT NULL,
            since INTEGER NOT NULL,
            PRIMARY KEY (space, owner)
        ) STRICT, WITHOUT ROWID;
        """

    /// Format 7: the owner of each replica, and the renewals of tokens.
    private static let owners = """
        ALTER TABLE annals_spaces ADD COLUMN owner_changes INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE annals_replicas ADD COLUMN owner TEXT;
        ALTER TABLE annals_tokens ADD COLUMN holder INTEGER;
        """

    /// Format 4: the digest at the horizon, the bytes of a log since its space was created, the position of each
    /// replica's last transaction, retired replicas, and several snapshots for a space.
    private static let purge = """
        ALTER TABLE annals_spaces ADD COLUMN horizon_digest BLOB;
        ALTER TABLE annals_spaces ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE annals_replicas ADD COLUMN last_position INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE annals_replicas ADD COLUMN retired INTEGER NOT NULL DEFAULT 0;
        UPDATE annals_spaces SET log_bytes = coalesce((SELECT sum(length(batch)) FROM annals_runs WHERE space = annals_spaces.id), 0);
        UPDATE annals_replicas SET last_position = coalesce(
            (SELECT max(position + count - 1) FROM annals_runs WHERE replica = annals_replicas.id), 0);
        ALTER TABLE annals_snapshots RENAME TO annals_only_snapshots;
        CREATE TABLE annals_snapshots(
            id INTEGER PRIMARY KEY,
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            position INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            digest BLOB NOT NULL,
            file TEXT NOT NULL,
            created INTEGER NOT NULL,
            log_bytes INTEGER NOT NULL,
            UNIQUE (space, position)
        ) STRICT;
        INSERT INTO annals_snapshots(space, position, bytes, digest, file, created, log_bytes)
            SELECT space, position, bytes, digest, file, created, coalesce(
                (SELECT sum(length(batch)) FROM annals_runs AS r WHERE r.space = s.space AND r.position <= s.position), 0)
            FROM annals_only_snapshots AS s;
        DROP TABLE annals_only_snapshots;
        """

    /// Format 6, for operators: the program of each replica, bytes that purges dropped, the growth of each day, and the
    /// audit log.
    private static let operators = """
        ALTER TABLE annals_replicas ADD COLUMN program TEXT NOT NULL DEFAULT '';
        ALTER TABLE annals_spaces ADD COLUMN dropped_bytes INTEGER NOT NULL DEFAULT 0;
        UPDATE annals_spaces SET dropped_bytes = log_bytes
            - coalesce((SELECT sum(length(batch)) FROM annals_runs WHERE space = annals_spaces.id), 0);
        CREATE TABLE annals_days(
            space INTEGER NOT NULL REFERENCES annals_spaces(id),
            day INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            positions INTEGER NOT NULL,
            PRIMARY KEY (space, day)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO annals_days(space, day, bytes, positions)
            SELECT space, received / 86400000, sum(length(batch)), sum(count) FROM annals_runs GROUP BY 1, 2;
        CREATE TABLE annals_audit(
            number INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE,
            time INTEGER NOT NULL,
            actor TEXT NOT NULL,
            action TEXT NOT NULL,
            space TEXT,
            subject TEXT NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT;
        """
}
