/// What a transaction touches, as short hashes by which the relay certifies it without reading it.
///
/// WRITES are rows, keys and unique values taken or given up; READS are the parents that it relies on. Two
/// transactions whose footprints do not meet commute.
package struct Footprint: Hashable, Sendable {
    /// Which rules made it; footprints of different rules meet everything.
    package static let currentRules: UInt16 = 1

    package var rules: UInt16
    /// Names the key under which the hashes were made; zero where the space has none.
    package var keyID: UInt64
    /// Meets everything: schema and policy entries.
    package var everything: Bool
    /// Grouped by the hash of the table, in ascending order of it.
    package var groups: [Group]

    /// The hashes of one table.
    package struct Group: Hashable, Sendable {
        package var table: UInt64
        package var writesWhole: Bool
        package var readsWhole: Bool
        /// Ascending, without repeats; empty when `writesWhole`.
        package var writes: [UInt64]
        /// Ascending, without repeats; empty when `readsWhole`.
        package var reads: [UInt64]

        package init(table: UInt64, writesWhole: Bool = false, readsWhole: Bool = false, writes: [UInt64] = [], reads: [UInt64] = []) {
            self.table = table
            self.writesWhole = writesWhole
            self.readsWhole = readsWhole
            self.writes = writes
            self.reads = reads
        }
    }

    package init(rules: UInt16 = currentRules, keyID: UInt64 = 0, everything: Bool = false, groups: [Group] = []) {
        self.rules = rules
        self.keyID = keyID
        self.everything = everything
        self.groups = groups
    }

    package static let everything = Footprint(everything: true)

    /// More hashes than this in one table, and the whole table is named instead.
    package static let hashesPerTable = 4096
}
