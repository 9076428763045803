/// What a transaction touches, as short hashes by which the relay certifies it without reading it.
///
/// WRITES are rows, keys and unique values taken or given up; READS are the parents that it relies on. Two
/// transactions whose footprints do not meet commute.
public struct Footprint: Hashable, Sendable {
    /// Which rules made it; footprints of different rules meet everything.
    public static let currentRules: UInt16 = 1

    public var rules: UInt16
    /// Names the key under which the hashes were made; zero where the space has none.
    public var keyID: UInt64
    /// Meets everything: schema and policy entries.
    public var everything: Bool
    /// Grouped by the hash of the table, in ascending order of it.
    public var groups: [Group]

    /// The hashes of one table.
    public struct Group: Hashable, Sendable {
        public var table: UInt64
        public var writesWhole: Bool
        public var readsWhole: Bool
        /// Ascending, without repeats; empty when `writesWhole`.
        public var writes: [UInt64]
        /// Ascending, without repeats; empty when `readsWhole`.
        public var reads: [UInt64]

        public init(table: UInt64, writesWhole: Bool = false, readsWhole: Bool = false, writes: [UInt64] = [], reads: [UInt64] = []) {
            self.table = table
            self.writesWhole = writesWhole
            self.readsWhole = readsWhole
            self.writes = writes
            self.reads = reads
        }
    }

    public init(rules: UInt16 = currentRules, keyID: UInt64 = 0, everything: Bool = false, groups: [Group] = []) {
        self.rules = rules
        self.keyID = keyID
        self.everything = everything
        self.groups = groups
    }

    public static let everything = Footprint(everything: true)

    /// More hashes than this in one table, and the whole table is named instead.
    public static let hashesPerTable = 4096
}
