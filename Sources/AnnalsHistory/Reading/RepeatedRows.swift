import AnnalsSchema

/// The rows that a long section changes several times. One pass that reads only keys finds them.
///
/// It keeps four bytes for each changed row. If two rows share a hash, both are folded, which costs only memory.
struct RepeatedRows {
    /// The number of raw changes of such rows.
    package private(set) var changes = 0
    private var hashes: Set<UInt32> = []
    /// Hashes of repeated rows that changed their key. All changes of such rows are folded together.
    private var moved: Set<UInt32> = []

    init(_ source: RawChangeScan, _ section: NetChanges.Section) throws {
        var all: [UInt32] = []
        all.reserveCapacity(Int(section.last - section.first + 1))
        var moves: [RowHashes] = []
        try source.forEachHashes(section) { row in
            if let old = row.old { all.append(old) }
            if let new = row.new, new != row.old { all.append(new) }
            if row.isMove { moves.append(row) }
        }
        all.sort()
        var index = 0
        while index < all.count {
            var end = index + 1
            while end < all.count, all[end] == all[index] { end += 1 }
            if end - index > 1 {
                hashes.insert(all[index])
                changes += end - index
            }
            index = end
        }
        for move in moves where contains(move) {
            if let old = move.old { moved.insert(old) }
            if let new = move.new { moved.insert(new) }
        }
    }

    package func contains(_ row: RowHashes) -> Bool {
        (row.old.map(hashes.contains) ?? false) || (row.new.map(hashes.contains) ?? false)
    }

    /// Whether it is a repeated row that changed its key.
    package func isMoved(_ row: RowHashes) -> Bool {
        (row.old ?? row.new).map(moved.contains) ?? false
    }
}
