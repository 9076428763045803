import GRDBSQLite

/// Named bounds of this module, each with its reason.
enum ReplicaLimits {
    /// Bytes of a file that are read through a map of it where that is done. SQLite maps less where it is built so.
    static let mappedBytes: Int64 = 2 << 30

    /// Positions of the log whose running digests are kept, to compare with what others have seen. An author whose newest batch says less
    /// than that is compared by its next one.
    static let logDigestsKept: Int64 = 512

    /// Bytes of a value and of a statement in `SchemaTrial`.
    static let schemaTrialValue: Int32 = 16 << 10
    static let schemaTrialText: Int32 = 64 << 10

    /// What else `SchemaTrial` allows SQLite: nothing attached, no parameters.
    static let schemaTrial: [(Int32, Int32)] = [
        (SQLITE_LIMIT_SQL_LENGTH, schemaTrialText), (SQLITE_LIMIT_ATTACHED, 0), (SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (SQLITE_LIMIT_EXPR_DEPTH, 200), (SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    ]

    /// Functions that the statements of one entry may call together.
    static let schemaTrialCalls = 4_000

    /// Instructions of SQLite's machine between two looks at how many there were; a declaration takes some hundreds.
    static let schemaTrialStep: Int32 = 1_000
    static let schemaTrialSteps: Int32 = 1_000

    /// Numbers that are tried for one row where the counted ones are used up: of 2⁶².
    static let scatteredKeys = 100
}
