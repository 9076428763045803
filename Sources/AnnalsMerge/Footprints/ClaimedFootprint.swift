package import AnnalsCore
package import AnnalsWire

/// What an author says that a transaction touches, beside what its body does.
///
/// The relay lets a transaction into the log by its footprint alone. One that says less than the body does would let it stand beside
/// others that it meets, and these, or later ones by honest authors, could not be applied.
package final class ClaimedFootprint {
    private let groups: [Footprint.Group]
    /// Whether all that was noted is claimed.
    package private(set) var holds = true

    /// nil for a footprint that meets everything.
    package init?(_ claimed: Footprint, of transaction: TransactionID, key: FootprintKey) {
        guard !claimed.everything, claimed.rules == Footprint.currentRules, claimed.keyID == key.id else { return nil }
        groups = (claimed.isNormal ? claimed : claimed.normalized()).groups
        let hash = FootprintHash(key: key)
        write(hash.idHash(transaction), in: hash.transactionGroup)
    }

    /// Adds one row's change: all stored columns, or at least those of keys, unique indexes and references; nil where there was or is no row.
    package func note(_ hasher: TableHasher, _ old: [Value]?, _ new: [Value]?) {
        guard holds else { return }
        if group(of: hasher.table)?.writesWhole != true {
            hasher.writes(old, new) { write($0, in: hasher.table) }
        }
        hasher.reads(old, new) { table, hash in read(hash, in: table) }
    }

    private func write(_ hash: UInt64, in table: UInt64) {
        let group = group(of: table)
        holds = holds && group.map { $0.writesWhole || Self.has(hash, $0.writes) } ?? false
    }

    /// What a transaction writes it may also rely on.
    private func read(_ hash: UInt64, in table: UInt64) {
        let group = group(of: table)
        holds = holds && group.map { $0.writesWhole || $0.readsWhole || Self.has(hash, $0.writes) || Self.has(hash, $0.reads) } ?? false
    }

    private func group(of table: UInt64) -> Footprint.Group? {
        groups.first { $0.table == table }
    }

    /// Whether an ascending list has the hash.
    private static func has(_ hash: UInt64, _ hashes: [UInt64]) -> Bool {
        var (low, high) = (0, hashes.count)
        while low < high {
            let middle = (low + high) / 2
            if hashes[middle] < hash { low = middle + 1 } else { high = middle }
        }
        return low < hashes.count && hashes[low] == hash
    }
}
