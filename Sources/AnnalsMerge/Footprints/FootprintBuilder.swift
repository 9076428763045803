package import AnnalsCore
package import AnnalsWire

/// Gathers the footprint of one transaction from the full rows before and after each of its changes.
///
/// WRITES: every row inserted, changed or deleted, under its old and new key; every non-NULL tuple of the primary
/// key and of the UNIQUE indexes that the change takes or gives up; the transaction's id. READS: the parent's tuple
/// for every foreign key value that an insert or update sets.
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
    private let keyID: UInt64
    private var hashers: [String: TableHasher] = [:]
    private var tables: [UInt64: Hashes] = [:]

    /// `key` keys the hashes, where the space has one.
    package init(transaction: TransactionID, key: FootprintKey = .none) {
        hash = FootprintHash(key: key)
        keyID = key.id
        tables[hash.transactionGroup, default: Hashes()].write(hash.idHash(transaction))
    }

    /// Adds one row's change. `old` and `new` are all stored columns; nil where there was or is no row.
    ///
    /// - Parameter leftOut: places of values that the change left as they were and that neither row holds. A tuple of which only the rest
    ///   changed cannot be told then, and the whole table stands for it.
    package mutating func add(_ rules: FootprintRules, old: [Value]?, new: [Value]?, leftOut: [Int] = []) {
        let hasher = hasher(of: rules)
        func isUntold(_ index: TableHasher.Index) -> Bool {
            guard !leftOut.isEmpty, !index.isCoarse, let old, let new, index.places.contains(where: leftOut.contains) else { return false }
            return index.places.contains { old[$0] != new[$0] }
        }
        if hasher.indexes.contains(where: isUntold) { tables[hasher.table, default: Hashes()].writeAll() }
        if tables[hasher.table]?.writesWhole != true { addWrites(hasher, old, new) }
        guard let new else { return }
        for reference in hasher.references {
            if let old, reference.places.allSatisfy({ old[$0] == new[$0] }) { continue }
            if isUntold(reference) { tables[reference.table, default: Hashes()].readAll() }
            guard let hash = reference.hash(new) else { continue }
            tables[reference.table, default: Hashes()].read(hash)
        }
    }

    /// The transaction adds to the schema. Two that do meet each other, and nothing else.
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
        return Footprint(keyID: keyID, groups: groups)
    }

    private mutating func hasher(of rules: FootprintRules) -> TableHasher {
        if let hasher = hashers[rules.table] { return hasher }
        let hasher = TableHasher(rules, hash)
        hashers[rules.table] = hasher
        return hasher
    }

    private mutating func addWrites(_ hasher: TableHasher, _ old: [Value]?, _ new: [Value]?) {
        var written: [UInt64] = []
        let before = old.map(hasher.row)
        let after = new.map(hasher.row)
        if let before { written.append(before) }
        if let after, after != before { written.append(after) }
        for index in hasher.indexes {
            let taken = new.flatMap(index.hash)
            let given = old.flatMap(index.hash)
            if index.isCoarse {
                if index.isTouched(old, new), let hash = taken ?? given { written.append(hash) }
            } else if taken != given {
                if let given { written.append(given) }
                if let taken { written.append(taken) }
            }
        }
        for hash in written { tables[hasher.table, default: Hashes()].write(hash) }
    }
}

/// One table's hash functions, prepared once for many rows.
private struct TableHasher {
    /// A unique index, the primary key, or the parent's index that a foreign key references.
    struct Index {
        var table: UInt64
        var places: [Int]
        var columns: [FootprintRules.Column]
        var tuples: FootprintHash.Tuples
        /// The one hash of a coarse index.
        var coarse: UInt64?
        var coarseColumns: [Int]?

        var isCoarse: Bool { coarse != nil }

        func hash(_ row: [Value]) -> UInt64? {
            if let coarse { return coarse }
            return CanonicalTuple.tuple(row, places: places, columns: columns).map(tuples.hash)
        }

        func isTouched(_ old: [Value]?, _ new: [Value]?) -> Bool {
            guard let old, let new, let coarseColumns else { return true }
            return coarseColumns.contains { old[$0] != new[$0] }
        }
    }

    var table: UInt64
    var key: FootprintRules.Index
    var rows: FootprintHash.Tuples
    var indexes: [Index]
    var references: [Index]

    init(_ rules: FootprintRules, _ hash: FootprintHash) {
        let table = hash.tableHash(rules.table)
        self.table = table
        key = rules.key
        rows = hash.rows(of: rules.table)
        indexes = ([rules.key] + rules.uniques).map { index in
            let names = index.columns.map(\.name)
            return Index(
                table: table, places: index.places, columns: index.columns, tuples: hash.tuples(of: rules.table, columns: names),
                coarse: index.isCoarse ? hash.indexHash(table: rules.table, columns: names) : nil, coarseColumns: index.coarseColumns)
        }
        references = rules.references.map { reference in
            let names = reference.parentColumns.map(\.name)
            return Index(
                table: hash.tableHash(reference.parentTable), places: reference.places, columns: reference.parentColumns,
                tuples: hash.tuples(of: reference.parentTable, columns: names),
                coarse: reference.isCoarse ? hash.indexHash(table: reference.parentTable, columns: names) : nil)
        }
    }

    func row(_ row: [Value]) -> UInt64 {
        rows.hash(zip(key.places, key.columns).map { CanonicalTuple.value(row[$0], in: $1) })
    }
}
