public import AnnalsCore
import AnnalsWire

/// Gathers the footprint of one transaction from the full rows before and after each of its changes.
///
/// WRITES: every row inserted, changed or deleted, under its old and new key; every non-NULL tuple of the primary
/// key and of the UNIQUE indexes that the change takes or gives up; the transaction's id. READS: the parent's tuple
/// for every foreign key value that an insert or update sets.
public struct FootprintBuilder {
    private struct Hashes {
        var writes: Set<UInt64> = []
        var reads: Set<UInt64> = []
        var writesWhole = false
        var readsWhole = false
    }

    private let key: (UInt64, UInt64)
    private let keyID: UInt64
    private var tables: [UInt64: Hashes] = [:]

    /// `key` keys the hashes; (0, 0) with `keyID` 0 where the space has no key.
    public init(transaction: TransactionID, key: (UInt64, UInt64) = (0, 0), keyID: UInt64 = 0) {
        self.key = key
        self.keyID = keyID
        write(FootprintHash.idHash(transaction, key: key), in: FootprintHash.transactionGroup)
    }

    /// Adds one row's change. `old` and `new` are all stored columns; nil where there was or is no row.
    public mutating func add(_ rules: FootprintRules, old: [Value]?, new: [Value]?) {
        let table = FootprintHash.tableHash(rules.table, key: key)
        guard old != nil || new != nil else { return }
        if tables[table]?.writesWhole != true {
            addRows(rules, table, old, new)
            addTuples(rules.key, rules.table, table, old, new)
            for index in rules.uniques { addTuples(index, rules.table, table, old, new) }
        }
        if let new {
            for reference in rules.references { addReference(reference, old: old, new: new) }
        }
    }

    public func finish() -> Footprint {
        let groups = tables.keys.sorted().map { table in
            let hashes = tables[table, default: Hashes()]
            return Footprint.Group(
                table: table, writesWhole: hashes.writesWhole, readsWhole: hashes.readsWhole,
                writes: hashes.writes.sorted(), reads: hashes.reads.sorted())
        }
        return Footprint(keyID: keyID, groups: groups)
    }

    private mutating func addRows(_ rules: FootprintRules, _ table: UInt64, _ old: [Value]?, _ new: [Value]?) {
        var previous: UInt64?
        for row in [old, new] {
            guard let row else { continue }
            let values = zip(rules.key.places, rules.key.columns).map { CanonicalTuple.value(row[$0], in: $1) }
            let hash = FootprintHash.rowHash(rules.table, key: values, hashKey: key)
            if hash != previous { write(hash, in: table) }
            previous = hash
        }
    }

    private mutating func addTuples(
        _ index: FootprintRules.Index, _ name: String, _ table: UInt64, _ old: [Value]?, _ new: [Value]?
    ) {
        if index.isCoarse {
            if let old, let new, let columns = index.coarseColumns, columns.allSatisfy({ old[$0] == new[$0] }) { return }
            write(FootprintHash.indexHash(name, columns: index.columns.map(\.name), key: key), in: table)
            return
        }
        let before = old.flatMap { CanonicalTuple.tuple($0, places: index.places, columns: index.columns) }
        let after = new.flatMap { CanonicalTuple.tuple($0, places: index.places, columns: index.columns) }
        guard before != after else { return }
        for tuple in [before, after] {
            guard let tuple else { continue }
            write(FootprintHash.tupleHash(name, columns: index.columns.map(\.name), values: tuple, key: key), in: table)
        }
    }

    private mutating func addReference(_ reference: FootprintRules.Reference, old: [Value]?, new: [Value]) {
        if let old, reference.places.allSatisfy({ old[$0] == new[$0] }) { return }
        guard let tuple = CanonicalTuple.tuple(new, places: reference.places, columns: reference.parentColumns) else { return }
        let names = reference.parentColumns.map(\.name)
        let table = FootprintHash.tableHash(reference.parentTable, key: key)
        let hash =
            reference.isCoarse
            ? FootprintHash.indexHash(reference.parentTable, columns: names, key: key)
            : FootprintHash.tupleHash(reference.parentTable, columns: names, values: tuple, key: key)
        read(hash, in: table)
    }

    private mutating func write(_ hash: UInt64, in table: UInt64) {
        var hashes = tables.removeValue(forKey: table) ?? Hashes()
        if !hashes.writesWhole {
            hashes.writes.insert(hash)
            if hashes.writes.count > Footprint.hashesPerTable {
                hashes.writesWhole = true
                hashes.writes = []
            }
        }
        tables[table] = hashes
    }

    private mutating func read(_ hash: UInt64, in table: UInt64) {
        var hashes = tables.removeValue(forKey: table) ?? Hashes()
        if !hashes.readsWhole {
            hashes.reads.insert(hash)
            if hashes.reads.count > Footprint.hashesPerTable {
                hashes.readsWhole = true
                hashes.reads = []
            }
        }
        tables[table] = hashes
    }
}
