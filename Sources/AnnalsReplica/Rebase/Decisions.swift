import AnnalsCore
import AnnalsMerge

/// What has been decided about a transaction so far. Only ever added to, so that trying again ends (merge rule 30).
struct Decisions {
    enum Decision: Hashable {
        /// Nothing of the change stands.
        case setAside(Int, Reason)
        /// An update loses these columns.
        case giveUp(Int, columns: [Int], Reason)
        /// The columns of this foreign key become what ON DELETE says.
        case loseReference(Int, foreignKey: Int)
        /// The stored row of this name is set aside in favour of the change.
        case evict(Int, CandidateKey)
        /// The change's row becomes one with the stored row of this name.
        case merge(Int, into: CandidateKey)
        /// The stored row stays after all: something forbids that it goes.
        case keep(Int, CandidateKey)
        /// The change's row stays by itself after all.
        case separate(Int)
        /// A row that might come back does not.
        case leaveDead(RowLineage.ID)
        /// Nothing of the transaction stands.
        case setAsideAll(Reason)
    }

    private var all: Set<Decision> = []
    private var reasons: [Int: Reason] = [:]
    private var givenUp: [Int: [Int: Reason]] = [:]
    private var evictions: [(change: Int, row: CandidateKey)] = []
    private var merges: [Int: CandidateKey] = [:]
    private(set) var reasonForAll: Reason?

    /// False when it was there already: then trying again would not help.
    package mutating func add(_ decision: Decision) -> Bool {
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

    package func contains(_ decision: Decision) -> Bool { all.contains(decision) }

    func setAside(_ change: Int) -> Reason? { reasonForAll ?? reasons[change] }

    func givenUp(_ change: Int) -> [Int: Reason] { givenUp[change] ?? [:] }

    /// The stored row with which a change's row becomes one.
    package func merge(_ change: Int) -> CandidateKey? { all.contains(.separate(change)) ? nil : merges[change] }

    /// Stored rows that are set aside, each in favour of a change, in the order in which that was decided.
    var evicted: [(change: Int, row: CandidateKey)] { evictions.filter { !all.contains(.keep($0.change, $0.row)) } }
}
