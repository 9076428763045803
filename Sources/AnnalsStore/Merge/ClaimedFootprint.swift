import AnnalsCore
import AnnalsMerge
import AnnalsWire

/// What an author says that a transaction touches, beside what its body does.
///
/// The relay lets a transaction into the log by its footprint alone. One that says less than the body does would let it stand beside
/// others that it meets, and these, or later ones by honest authors, could not be applied.
final class ClaimedFootprint {
    private let claimed: Footprint
    private var touched: FootprintBuilder

    /// nil for a footprint that meets everything.
    init?(_ claimed: Footprint, of transaction: TransactionID, key: FootprintKey) {
        guard !claimed.everything, claimed.rules == Footprint.currentRules, claimed.keyID == key.id else { return nil }
        self.claimed = claimed
        touched = FootprintBuilder(transaction: transaction, key: key)
    }

    /// Adds one row's change.
    func note(_ table: RowTable, _ old: [Value]?, _ new: [Value]?) {
        touched.add(table.rules, old: old, new: new)
    }

    /// - Throws: `WireError.badValue`.
    func check() throws {
        guard touched.finish().isWithin(claimed) else { throw WireError.badValue("footprint") }
    }
}
