import GRDBSQLite

/// Limits of this module, each with its reason.
enum ReplicaLimits {
    /// The part of a file that is read through a memory map, in bytes. Some builds of SQLite map less.
    static let mappedBytes: Int64 = 2 << 30

    /// Positions with a stored running digest of the log, for comparison with the digests that other replicas have seen. If an author's
    /// newest batch names an older position, it is not compared. The author's next batch is.
    static let logDigestsKept: Int64 = 512

    /// Limits of a value and of a statement in `SchemaTrial`, in bytes.
    static let schemaTrialValue: Int32 = 16 << 10
    static let schemaTrialText: Int32 = 64 << 10

    /// Other limits of SQLite in `SchemaTrial`: no attached files and no parameters.
    static let schemaTrial: [(Int32, Int32)] = [
        (SQLITE_LIMIT_SQL_LENGTH, schemaTrialText), (SQLITE_LIMIT_ATTACHED, 0), (SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (SQLITE_LIMIT_EXPR_DEPTH, 200), (SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    ]

    /// Function calls in all statements of one entry.
    static let schemaTrialCalls = 4_000

    /// Instructions of SQLite's virtual machine between two checks, and the highest number of checks. A declaration needs some hundreds of
    /// instructions.
    static let schemaTrialStep: Int32 = 1_000
    static let schemaTrialSteps: Int32 = 1_000

    /// Random numbers that are tried for one row after all sequential numbers are used, out of 2⁶².
    static let scatteredKeys = 100
}
