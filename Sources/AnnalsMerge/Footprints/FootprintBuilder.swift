package import AnnalsCore
package import AnnalsWire

/// Builds the footprint of one transaction from the full rows before and after each of its changes.
///
/// The write set has every row that was inserted, changed or deleted, under its old and new key. It has every non-NULL
/// tuple of the primary key and of the UNIQUE indexes that the change takes or gives up, and the transaction's id. The
/// read set has the parent's tuple for every foreign key value that an insert or update sets.
package struct FootprintBuilder {
    private struct Hashes {
        var writes: Set<UInt64> = []
        var reads: Set<UInt64> = []
        var writesWhole = false
        var readsWhole = false

        mutating func write(_ hash: UInt64) {
            guard !writesWhole else { return }
            writes.insert(hash)
            if writes.count > Footprint.hashesPerTable { writeAll() }
        }

        mutating func writeAll() {
            writesWhole = true
            writes = []
        }

        mutating func read(_ hash: UInt64) {
            guard !readsWhole else { return }
            reads.insert(hash)
            if reads.count > Footprint.hashesPerTable { readAll() }
        }

        mutating func readAll() {
            readsWhole = true
            reads = []
        }
    }

    private let hash: FootprintHash
    private let key: FootprintKey
    private var hashers: [String: TableHasher] = [:]
    private var tables: [UInt64: Hashes] = [:]

    /// `key` is the key of the hashes, if the space has one.
    package init(transaction: TransactionID, key: FootprintKey = .none) {
        hash = FootprintHash(key: key)
        self.key = key
        tables[hash.transactionGroup, default: Hashes()].write(hash.idHash(transaction))
    }

    /// Adds one row's change. `old` and `new` have all stored columns. nil means that there was or is no row.
    ///
    /// - Parameter leftOut: the indexes of unchanged values that neither row contains. A changed tuple with one of
    ///   these values has no known hash, so the footprint then names the whole table.
    package mutating func add(_ rules: FootprintRules, old: [Value]?, new: [Value]?, leftOut: [Int] = []) {
        let hasher = hasher(of: rules)
        if !leftOut.isEmpty, let old, let new {
            func isUnclaimed(_ index: TableHasher.Index) -> Bool {
                !index.isCoarse && index.usedColumnIndexes.contains(where: leftOut.contains) && !index.isSame(old, new)
            }
            if hasher.indexes.contains(where: isUnclaimed) { tables[hasher.table, default: Hashes()].writeAll() }
            for reference in hasher.references where isUnclaimed(reference) { tables[reference.table, default: Hashes()].readAll() }
        }
        if tables[hasher.table]?.writesWhole != true {
            hasher.writes(old, new) { hash in tables[hasher.table, default: Hashes()].write(hash) }
        }
        hasher.reads(old, new) { table, hash in tables[table, default: Hashes()].read(hash) }
    }

    /// The transaction adds to the schema. Such transactions conflict with each other, and with nothing else.
    package mutating func addSchema() {
        tables[hash.schemaHash, default: Hashes()].write(hash.schemaHash)
    }

    package func finish() -> Footprint {
        let groups = tables.keys.sorted().map { table in
            let hashes = tables[table, default: Hashes()]
            return Footprint.Group(
                table: table, writesWhole: hashes.writesWhole, readsWhole: hashes.readsWhole,
                writes: hashes.writes.sorted(), reads: hashes.reads.sorted())
        }
        return Footprint(keyID: key.id, groups: groups)
    }

    private mutating func hasher(of rules: FootprintRules) -> TableHasher {
        if let hasher = hashers[rules.table] { return hasher }
        let hasher = TableHasher(rules, key)
        hashers[rules.table] = hasher
        return hasher
    }
}
