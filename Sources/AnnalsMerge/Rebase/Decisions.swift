import AnnalsCore

/// What was decided about a transaction so far. Decisions are only added, so repeated attempts end (merge rule 30).
///
/// A change is identified by its index in the transaction.
struct Decisions {
    enum Decision: Hashable {
        /// Nothing of the change is applied.
        case setAside(Int, Reason)
        /// An update loses these columns.
        case giveUp(Int, columns: [Int], Reason)
        /// The columns of this foreign key become what ON DELETE declares.
        case loseReference(Int, foreignKey: Int)
        /// The stored row with this key is set aside in favour of the change.
        case evict(Int, CandidateKey)
        /// The row of the change is merged into the stored row with this key.
        case merge(Int, into: CandidateKey)
        /// The stored row stays: a constraint does not let it go.
        case keep(Int, CandidateKey)
        /// The row of the change is not merged.
        case separate(Int)
        /// A deleted row is not restored.
        case leaveDead(RowIdentities.ID)
        /// Nothing of the transaction is applied.
        case setAsideAll(Reason)
    }

    private var all: Set<Decision> = []
    private var reasons: [Int: Reason] = [:]
    private var givenUp: [Int: [Int: Reason]] = [:]
    private var evictions: [(change: Int, row: CandidateKey)] = []
    private var merges: [Int: CandidateKey] = [:]
    private(set) var reasonForAll: Reason?

    /// Returns false if the decision was known. Then another attempt would not help.
    mutating func add(_ decision: Decision) -> Bool {
        guard all.insert(decision).inserted else { return false }
        switch decision {
        case .setAside(let change, let reason):
            if reasons[change] != nil { return false }
            reasons[change] = reason
        case .giveUp(let change, let columns, let reason):
            for column in columns where givenUp[change]?[column] == nil { givenUp[change, default: [:]][column] = reason }
        case .evict(let change, let row): evictions.append((change, row))
        case .merge(let change, let row): merges[change] = row
        case .setAsideAll(let reason): reasonForAll = reason
        case .loseReference, .keep, .separate, .leaveDead: break
        }
        return true
    }

    func contains(_ decision: Decision) -> Bool { all.contains(decision) }

    func setAside(_ change: Int) -> Reason? { reasonForAll ?? reasons[change] }

    func givenUp(_ change: Int) -> [Int: Reason] { givenUp[change] ?? [:] }

    /// The stored row into which the row of a change is merged.
    func merge(_ change: Int) -> CandidateKey? { all.contains(.separate(change)) ? nil : merges[change] }

    /// The stored rows that are set aside, each in favour of a change, in the order of the decisions.
    var evicted: [(change: Int, row: CandidateKey)] { evictions.filter { !all.contains(.keep($0.change, $0.row)) } }
}
