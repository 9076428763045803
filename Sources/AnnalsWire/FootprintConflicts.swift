package import AnnalsCore

extension Footprint {
    /// Whether the footprints conflict: one writes something that the other writes or reads. Then the author of the
    /// later transaction must rebase it on the earlier one.
    ///
    /// The relation is symmetric. Footprints of different rules or different keys always conflict.
    package static func conflict(_ left: Footprint, _ right: Footprint) -> Bool {
        if left.everything || right.everything || left.rules != right.rules || left.keyID != right.keyID { return true }
        // Both lists ascend, so one pass finds the common tables.
        let (left, right) = (left.isNormal ? left : left.normalized(), right.isNormal ? right : right.normalized())
        var (i, j) = (0, 0)
        while i < left.groups.count, j < right.groups.count {
            let (a, b) = (left.groups[i], right.groups[j])
            if a.table == b.table {
                if Group.conflict(a, b) { return true }
                i += 1
                j += 1
            } else if a.table < b.table {
                i += 1
            } else {
                j += 1
            }
        }
        return false
    }

    /// Whether this footprint and `other` conflict; see `conflict(_:_:)`.
    package func conflicts(with other: Footprint) -> Bool {
        Self.conflict(self, other)
    }

    /// Whether `other` covers this footprint: it writes everything that this one writes, and reads or writes everything
    /// that this one reads.
    package func isWithin(_ other: Footprint) -> Bool {
        if other.everything { return true }
        guard !everything, rules == other.rules, keyID == other.keyID else { return false }
        let known = Dictionary(other.normalized().groups.map { ($0.table, $0) }, uniquingKeysWith: { first, _ in first })
        return normalized().groups.allSatisfy { group in group.isWithin(known[group.table] ?? Group(table: group.table)) }
    }
}

extension Footprint.Group {
    var hasWrites: Bool { writesWhole || !writes.isEmpty }
    var hasReads: Bool { readsWhole || !reads.isEmpty }

    static func conflict(_ left: Self, _ right: Self) -> Bool {
        left.writesConflict(right) || right.writesConflict(left)
    }

    private func writesConflict(_ other: Self) -> Bool {
        guard hasWrites else { return false }
        if writesWhole { return other.hasWrites || other.hasReads }
        if other.writesWhole || other.readsWhole { return true }
        return Self.share(writes, other.writes) || Self.share(writes, other.reads)
    }

    fileprivate func isWithin(_ other: Self) -> Bool {
        if other.writesWhole { return true }
        guard !writesWhole, !readsWhole || other.readsWhole else { return false }
        let written = Set(other.writes)
        guard writes.allSatisfy(written.contains) else { return false }
        return other.readsWhole || Set(reads).subtracting(written).isSubset(of: other.reads)
    }

    private static func share(_ left: [UInt64], _ right: [UInt64]) -> Bool {
        var (i, j) = (0, 0)
        while i < left.count, j < right.count {
            if left[i] == right[j] { return true }
            if left[i] < right[j] { i += 1 } else { j += 1 }
        }
        return false
    }
}
