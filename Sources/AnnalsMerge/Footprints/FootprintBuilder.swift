package import AnnalsCore
package import AnnalsWire

/// Builds the footprint of one transaction from the full rows before and after each of its changes.
///
/// The write set has every row that was inserted, changed or deleted, under its old and new key. It has every non-NULL
/// tuple of the primary key and of the UNIQUE indexes that the change takes or gives up, and the transaction's id. The
/// read set has the parent's tuple for every foreign key value that an insert or update sets, and all of each table that
/// a serializable transaction read.
package struct FootprintBuilder {
    /// The hashes of one table. Too many hashes become the whole table.
    private struct HashSet {
        private(set) var hashes: Set<UInt64> = []
        private(set) var isWhole = false

        mutating func insert(_ hash: UInt64) {
            guard !isWhole else { return }
            hashes.insert(hash)
            if hashes.count > Footprint.hashesPerTable { insertAll() }
        }

        mutating func insertAll() {
            isWhole = true
            hashes = []
        }
    }

    private struct Hashes {
        var writes = HashSet()
        var reads = HashSet()
    }

    private let hash: FootprintHash
    private let key: FootprintKey
    private var hashers: [String: TableHasher] = [:]
    private var tables: [UInt64: Hashes] = [:]

    /// `key` is the key of the hashes, if the space has one.
    package init(transaction: TransactionID, key: FootprintKey = .none) {
        hash = FootprintHash(key: key)
        self.key = key
        tables[hash.transactionGroup, default: Hashes()].writes.insert(hash.idHash(transaction))
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
            if hasher.indexes.contains(where: isUnclaimed) { tables[hasher.table, default: Hashes()].writes.insertAll() }
            for reference in hasher.references where isUnclaimed(reference) { tables[reference.table, default: Hashes()].reads.insertAll() }
        }
        if tables[hasher.table]?.writes.isWhole != true {
            hasher.writes(old, new) { hash in tables[hasher.table, default: Hashes()].writes.insert(hash) }
        }
        hasher.reads(old, new) { table, hash in tables[table, default: Hashes()].reads.insert(hash) }
    }

    /// The transaction read all of a table, so it conflicts with each write to the table.
    package mutating func addReads(ofAll rules: FootprintRules) {
        tables[hasher(of: rules).table, default: Hashes()].reads.insertAll()
    }

    /// The transaction adds to the schema. Such transactions conflict with each other, and with nothing else.
    package mutating func addSchema() {
        tables[hash.schemaHash, default: Hashes()].writes.insert(hash.schemaHash)
    }

    /// The transaction resolves a conflict. Transactions that resolve the same conflict conflict with each other, so that all replicas
    /// keep the decision of the later one.
    package mutating func add(_ resolution: ConflictResolution) {
        tables[hash.conflictGroup, default: Hashes()].writes.insert(hash.conflictHash(resolution.conflict))
    }

    package func finish() -> Footprint {
        let groups = tables.keys.sorted().map { table in
            let hashes = tables[table, default: Hashes()]
            return Footprint.Group(
                table: table, writesWhole: hashes.writes.isWhole, readsWhole: hashes.reads.isWhole,
                writes: hashes.writes.hashes.sorted(), reads: hashes.reads.hashes.sorted())
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
