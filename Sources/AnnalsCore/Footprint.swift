/// The hashed write set and read set of a transaction. The relay certifies a transaction by it and does not need to
/// read the transaction.
///
/// The write set has rows, and keys and unique values that are taken or given up. The read set has the parents that the
/// transaction refers to. Two transactions commute if their footprints do not conflict.
package struct Footprint: Hashable, Sendable {
    /// The version of the rules that made the footprint. Footprints of different rules always conflict.
    package static let currentRules: UInt16 = 1

    package var rules: UInt16
    /// Identifies the key of the hashes. Zero if the space has no key.
    package var keyID: UInt64
    /// Whether the footprint conflicts with every other footprint. True for schema and policy entries.
    package var everything: Bool
    /// One group for each table, in ascending order of the table's hash.
    package var groups: [Group]

    /// The hashes of one table.
    package struct Group: Hashable, Sendable {
        package var table: UInt64
        package var writesWhole: Bool
        package var readsWhole: Bool
        /// Ascending and without duplicates. Empty if `writesWhole`.
        package var writes: [UInt64]
        /// Ascending and without duplicates. Empty if `readsWhole`.
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

    /// The largest number of hashes for one table. Above it, the footprint names the whole table.
    package static let hashesPerTable = 4096
}
