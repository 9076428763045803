import AnnalsCore
import AnnalsMerge
import AnnalsRows

/// One row that a try touches: as it was found, and as it is to be.
struct RebasedRow {
    package let table: RowTable
    /// As the store holds it when the try begins; nil for a row that is new or comes back.
    package let before: [Value]?
    /// nil where it goes, or does not come to be.
    package var after: [Value]?
    /// What brings about that it is touched, and pays if that breaks something.
    package var cause: Cause
    /// What other authors' rebases must know.
    package var mark: RowMark?
    var life: RowLineage.ID?
    package var end = End.gone
    /// Names by which later transactions of the outbox call it.
    package var asked: [CandidateKey] = []
    /// Why columns have other values than before, where that is not the wish of a change.
    package var effects: [Int: Effect] = [:]
    /// Why it goes, where that is not the wish of a change.
    var removal: Reason?
    /// The position of the delete that is taken back.
    var revives: Position?
    package var progress = Progress.planned

    /// What became of a row that is not there.
    package enum End: Equatable {
        /// Deleted, or set to come back and could not.
        case gone
        case setAside
        /// It is one with the row of this number, and called by that one's names.
        case merged(Int)
        /// It had the key of the row of this number, and is that row.
        case joined(Int)
    }

    enum Effect {
        /// A reference that calls the same parent by its present name: nothing is lost.
        case followed
        case changed(Reason)
    }

    /// How far its references are settled.
    package enum Progress {
        case planned, running, settled
    }

    package var isNew: Bool { before == nil && after != nil }

    /// The row that stands for it, where that is another one.
    var substitute: Int? {
        guard after == nil else { return nil }
        switch end {
        case .merged(let number), .joined(let number): return number
        case .gone, .setAside: return nil
        }
    }
}

/// Every effect has one cause, a change of the transaction, and what follows from it has the same (merge rule 30).
struct Cause: Hashable {
    /// The change's number in the transaction.
    package var change: Int
    var via: Via

    enum Via: Hashable {
        case change
        /// The stored row of this name is set aside in favour of the change (`keepLast`).
        case eviction(CandidateKey)
        /// The change's row is made one with a stored row (`mergeRows`).
        case merge
        /// A row comes back because the change, or a row that comes back, needs it.
        case revival(RowLineage.ID)
    }

    init(_ change: Int, _ via: Via = .change) {
        self.change = change
        self.via = via
    }
}

/// Why a value lost, in the words of the conflict journal.
struct Reason: Hashable {
    package var kind: JournalEntry.Kind
    package var policy: String
    /// Who wrote what stands against it.
    package var mark: WriteMark?

    package static let declared = "declared"
}

/// One column that a change asks for.
struct AskedColumn {
    package var column: Int
    /// What its author had seen; nil where it believed that there was no row.
    package var old: Value?
    /// Parents by the names that they have now.
    package var new: Value
    /// As its author wrote it.
    package let written: Value
    /// A policy that takes the whole row asks for it, not its author.
    let isImplied: Bool

    init(_ column: Int, old: Value?, new: Value, written: Value? = nil, isImplied: Bool = false) {
        self.column = column
        self.old = old
        self.new = new
        self.written = written ?? new
        self.isImplied = isImplied
    }
}

/// What one change of the transaction came to.
struct Verdict {
    /// The row that it means or makes, by its number in the try; nil where there is none.
    package var row: Int?
    /// What it asks for, references by the names that their parents have now.
    package var asked: [AskedColumn] = []
    /// Columns in which both sides' values are kept.
    package var combined: Set<Int> = []
    /// Why single columns are not as asked.
    var losses: [Int: Reason] = [:]
    /// References that became what ON DELETE says.
    var nulled: [Int: Reason] = [:]
    /// Why nothing of it stands.
    var loss: Reason?
    /// It is settled as a row, not column by column.
    var isByRow = false
    /// A policy has written the row already.
    var isSettled = false
    /// An insert that became an update of a row with the same key.
    package var isJoined = false
    /// The key that an insert got instead of the one it asked for.
    package var renumbered: (asked: Value, given: Value)?
}
