public import AnnalsSchema

/// The result of tracking for each table.
public struct TrackingReport: Sendable, Equatable {
    public var tables: [Table]
    public var isDryRun: Bool
    /// Another program had dropped the tables of Annals and left its triggers. The history starts again, and the store is in no
    /// space.
    public var hadLostHistory = false
    /// The bytes by which the file grew: for the tables and triggers of Annals, and for rows that are recorded now. History adds to it.
    public var addedBytes: Int64 = 0

    public struct Table: Sendable, Equatable {
        public var name: String
        public var outcome: Outcome
        /// The number of rows that the table had when it was tracked, and that are recorded as inserted, because the store has history
        /// already.
        public var recordedRows = 0
        package var hadRows = false
        /// The table's integer keys are provisional until a space has ordered them, because two replicas may use the same key.
        public var hasProvisionalKeys = false
        /// Rows whose key holds NULL. They are captured and never synced.
        public var rowsWithNullKey = Listed()
        /// Rows that violate a foreign key already.
        public var foreignKeyViolations: [Violations] = []
        /// The parent columns of a foreign key are not a key of the parent. Neither SQLite nor Annals can check it.
        public var hasUnusableForeignKey = false
        /// What the table uses and this program does not have. The table is captured, but rows of other replicas cannot be applied to it
        /// by this program.
        public var missing: [UnusableTable.Missing] = []

        package init(name: String, outcome: Outcome) {
            self.name = name
            self.outcome = outcome
        }

        public var isTracked: Bool {
            if case .skipped = outcome { false } else { true }
        }
    }

    public enum Outcome: Sendable, Equatable {
        case tracked(id: Int64)
        case alreadyTracked(id: Int64)
        case skipped(Refusal)
    }

    /// Rows by rowid: the count of all, and the first hundred rowids.
    public struct Listed: Sendable, Equatable {
        public var count: Int
        public var rowids: [Int64]

        package init(count: Int = 0, rowids: [Int64] = []) {
            self.count = count
            self.rowids = rowids
        }
    }

    public struct Violations: Sendable, Equatable {
        public var parent: String
        public var columns: [String]
        public var rows: Listed
    }
}
