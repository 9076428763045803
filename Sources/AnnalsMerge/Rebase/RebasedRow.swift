import AnnalsCore

/// One row that an attempt touches: as it was found, and as it is to be.
struct RebasedRow {
    let table: MergeTable
    /// The stored row when the attempt begins. nil for a row that is new or restored.
    let before: [Value]?
    /// nil if the row is deleted or does not come to be.
    var after: [Value]?
    /// What brings the row into play. It is blamed if the row violates a constraint.
    var cause: Cause
    /// What the rebases of other authors must know.
    var mark: RowMark?
    var rowID: RowIdentities.ID?
    var end = End.gone
    /// The keys by which later transactions of the outbox name it.
    var requestedNames: [CandidateKey] = []
    /// Why columns differ from `before` although no change requested that, by column index.
    var effects: [Int: Effect] = [:]
    /// Why the row is deleted although no change requested that.
    var removal: Reason?
    /// The position of the delete that is undone.
    var revives: Position?
    var referenceProgress = ReferenceProgress.planned

    /// What became of a row that does not exist.
    enum End: Equatable {
        /// Deleted, or not restored.
        case gone
        case setAside
        /// It was merged into the row of this number, and is named by that row's keys.
        case merged(Int)
        /// It had the key of the row of this number, and is that row.
        case joined(Int)
    }

    enum Effect {
        /// A reference that names the same parent by its present key. Nothing is lost.
        case followed
        case changed(Reason)
    }

    /// How far its references are settled.
    enum ReferenceProgress {
        case planned, running, settled
    }

    init(table: MergeTable, before: [Value]?, after: [Value]?, cause: Cause) {
        self.table = table
        self.before = before
        self.after = after
        self.cause = cause
    }

    var isNew: Bool { before == nil && after != nil }

    /// Whether the row is inserted by a change. A restored row is not: its identity is known.
    var isInserted: Bool { before == nil && rowID == nil }

    /// The row that stands for it, if that is another row.
    var substitute: Int? {
        guard after == nil else { return nil }
        switch end {
        case .merged(let number), .joined(let number): return number
        case .gone, .setAside: return nil
        }
    }
}

/// Each effect has one cause, a change of the transaction. What follows from the effect has the same cause (merge rule
/// 30).
package struct Cause: Hashable {
    /// The index of the change.
    var change: Int
    var via: Via

    enum Via: Hashable {
        case change
        /// The stored row with this key is set aside in favour of the change (`keepLast`).
        case eviction(CandidateKey)
        /// The row of the change is merged into a stored row (`mergeRows`).
        case merge
        /// A row is restored because the change, or another restored row, needs it.
        case revival(RowIdentities.ID)
    }

    init(_ change: Int, _ via: Via = .change) {
        self.change = change
        self.via = via
    }
}

/// Why a value lost, as the conflict journal says it.
package struct Reason: Hashable {
    var kind: JournalEntry.Kind
    var policy: String
    /// The writer of the value that won.
    var mark: WriteMark?

    /// The schema decided, not a policy.
    static func declared(_ kind: JournalEntry.Kind, mark: WriteMark? = nil) -> Reason {
        Reason(kind: kind, policy: "declared", mark: mark)
    }
}
