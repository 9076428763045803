package import AnnalsCore
package import AnnalsWire

/// Checks that the footprint claimed by the author covers the changes in the body.
///
/// The relay certifies a transaction by its footprint alone. If the footprint lacks hashes, the relay may accept the
/// transaction although it conflicts with other entries. Then replicas could not apply these entries, or later ones by
/// honest authors.
package final class ClaimedFootprint {
    private let groups: [Footprint.Group]
    private let hash: FootprintHash
    /// Whether the footprint covers every change so far.
    package private(set) var holds = true

    /// nil for a footprint that conflicts with all others.
    package init?(_ claimed: Footprint, of transaction: TransactionID, key: FootprintKey) {
        guard !claimed.everything, claimed.rules == Footprint.currentRules, claimed.keyID == key.id else { return nil }
        groups = (claimed.isNormal ? claimed : claimed.normalized()).groups
        hash = FootprintHash(key: key)
        write(hash.idHash(transaction), in: hash.transactionGroup)
    }

    /// Adds one row's change. The rows must have at least the columns of keys, unique indexes and references. nil means
    /// that there was or is no row.
    package func note(_ hasher: TableHasher, _ old: [Value]?, _ new: [Value]?) {
        guard holds else { return }
        if group(of: hasher.table)?.writesWhole != true {
            hasher.writes(old, new) { write($0, in: hasher.table) }
        }
        hasher.reads(old, new) { table, hash in read(hash, in: table) }
    }

    /// Adds the resolution of a conflict.
    package func note(_ resolution: ConflictResolution) {
        write(hash.conflictHash(resolution.conflict), in: hash.conflictGroup)
    }

    private func write(_ hash: UInt64, in table: UInt64) {
        let group = group(of: table)
        holds = holds && group.map { $0.writesWhole || Self.has(hash, $0.writes) } ?? false
    }

    /// A transaction may also read what it writes, so the write set counts here, too.
    private func read(_ hash: UInt64, in table: UInt64) {
        let group = group(of: table)
        holds = holds && group.map { $0.writesWhole || $0.readsWhole || Self.has(hash, $0.writes) || Self.has(hash, $0.reads) } ?? false
    }

    private func group(of table: UInt64) -> Footprint.Group? {
        groups.first { $0.table == table }
    }

    /// Whether an ascending list contains the hash.
    private static func has(_ hash: UInt64, _ hashes: [UInt64]) -> Bool {
        var (low, high) = (0, hashes.count)
        while low < high {
            let middle = (low + high) / 2
            if hashes[middle] < hash { low = middle + 1 } else { high = middle }
        }
        return low < hashes.count && hashes[low] == hash
    }
}
