/// What tracking did, table by table.
public struct TrackingReport: Sendable, Equatable {
    public var tables: [Table]
    public var isDryRun: Bool
    /// Another program had dropped Annals' tables and left its triggers: history begins anew, and the store is in no space.
    public var hadLostHistory = false

    public struct Table: Sendable, Equatable {
        public var name: String
        public var outcome: Outcome
        /// Its integer keys are provisional until a space has ordered them: two replicas may give out the same.
        public var hasProvisionalKeys = false
        /// Rows whose key holds NULL: captured, but never sent.
        public var rowsWithNullKey = Listed()
        /// Rows that break a foreign key already.
        public var foreignKeyViolations: [Violations] = []
        /// A foreign key's parent columns are no key of the parent: SQLite cannot check it, nor can Annals.
        public var hasUnusableForeignKey = false

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

    /// Rows by rowid: all are counted, the first hundred named.
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
