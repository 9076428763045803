import AnnalsCore

/// The rows in play in one attempt to rebase one transaction, what became of its changes, and who has which key. Each
/// part of the planner reads and writes it.
final class RebaseState {
    let transaction: UnsentTransaction
    let decisions: Decisions
    let context: RebaseContext
    let source: any RowSource

    var rows: [RebasedRow] = []
    var outcomes: [ChangeOutcome]
    var highestKeys: [String: Int64]
    /// Decisions that this attempt would have needed.
    private(set) var needed: [Decisions.Decision] = []

    /// Rows in play by the keys that they had when the attempt began.
    var foundNames: [CandidateKey: Int] = [:]
    /// Restored rows.
    var restored: [RowIdentities.ID: Int] = [:]
    /// The rows that the transaction means by the keys that it gave.
    var requestedNames: [CandidateKey: Requested] = [:]
    /// Rows in play by the keys that they had and no longer have. Filled while rows are written.
    var formerNames: [CandidateKey: Int] = [:]
    /// Rows in play by their present primary keys. Filled while rows are written.
    var presentKeys: [CandidateKey: Int] = [:]
    /// For each entry, what it deleted by CASCADE together with a parent.
    var cascades: [Position: [RowIdentities.ID: [RowIdentities.ID]]] = [:]
    private var changesOfRows: [Int: [Int]] = [:]

    enum Requested {
        case row(Int)
        case identity(RowIdentities.ID)
    }

    init(_ transaction: UnsentTransaction, _ decisions: Decisions, _ context: RebaseContext, _ source: any RowSource) {
        self.transaction = transaction
        self.decisions = decisions
        self.context = context
        self.source = source
        let count = transaction.changes.count
        outcomes = Array(repeating: ChangeOutcome(), count: count)
        rows.reserveCapacity(count)
        foundNames.reserveCapacity(count)
        presentKeys.reserveCapacity(count)
        highestKeys = context.highestKeys
    }

    func need(_ decision: Decisions.Decision) {
        needed.append(decision)
    }

    // MARK: Rows in play

    /// The number of a stored row. It comes into play if it was not.
    func rowNumber(_ table: MergeTable, _ row: [Value], _ rowID: RowIdentities.ID?, _ cause: Cause) -> Int {
        let names = table.names(of: row)
        if let number = foundNames[names[0]] { return number }
        var entry = RebasedRow(table: table, before: row, after: row, cause: cause)
        entry.rowID = rowID ?? self.rowID(of: names[0])
        rows.append(entry)
        for name in names { foundNames[name] = rows.count - 1 }
        return rows.count - 1
    }

    /// The identity of the row that has a key before this transaction. nil if no pulled entry and no earlier transaction touched it.
    func rowID(of name: CandidateKey) -> RowIdentities.ID? {
        if case .row(let id) = context.rowIdentities.occupant(of: name) { id } else { nil }
    }

    /// From now on, later references and transactions mean this row by these keys.
    func request(_ names: [CandidateKey], for number: Int) {
        for name in names { requestedNames[name] = .row(number) }
        rows[number].requestedNames += names
    }

    /// The row itself, or the row that stands for it.
    func resolved(_ number: Int) -> Int {
        var number = number
        while let target = rows[number].substitute { number = target }
        return number
    }

    /// The stored row with the primary key of a row, unless the transaction makes room there.
    func occupant(of row: [Value], in table: MergeTable) throws -> [Value]? {
        let name = table.keyName(of: row)
        if let number = foundNames[name], rows[number].after.map({ table.keyName(of: $0) }) != name { return nil }
        return try source.row(named: name, in: table)
    }

    // MARK: Changes

    func table(ofChange index: Int) throws -> MergeTable {
        try source.table(named: transaction.changes[index].table)
    }

    func isDelete(_ index: Int) -> Bool {
        if case .delete = transaction.changes[index].change { true } else { false }
    }

    func isInsert(_ index: Int) -> Bool {
        if case .insert = transaction.changes[index].change { true } else { false }
    }

    /// The number of the row that an insert makes, as long as it is to be made. nil for a restored row.
    func plainInsert(_ index: Int) -> Int? {
        guard isInsert(index), transaction.changes[index].mark == nil, let number = outcomes[index].row, rows[number].isNew else {
            return nil
        }
        return number
    }

    /// The changes that request something of a row, in the transaction's order. They are gathered once, when the rows of
    /// the changes are known.
    func changes(of number: Int) -> [Int] {
        if changesOfRows.isEmpty {
            for (index, outcome) in outcomes.enumerated() {
                if let row = outcome.row { changesOfRows[row, default: []].append(index) }
            }
        }
        return changesOfRows[number] ?? []
    }

    /// The rows of the changes are different from now on.
    func forgetChangesOfRows() {
        changesOfRows = [:]
    }

    // MARK: Policies

    func policies(of table: MergeTable) -> MergePolicies.Table { context.policies(of: table) }

    /// The writer of a cell on another replica that the author had not seen.
    func writer(of columnIndex: Int, of number: Int) -> WriteMark? {
        rows[number].rowID.flatMap { context.rowIdentities[$0].writer(of: columnIndex) }
    }

    /// The side that wrote later. `ReplicaID` breaks ties.
    func winner(ofChange index: Int, against mark: WriteMark) -> JournalEntry.Side {
        let time = transaction.info.time.clamped(toReceipt: context.relayTime).earlier(by: transaction.changes[index].age)
        return LastWriterWins.winner(incoming: time, of: context.replica, stored: mark)
    }

    /// When the change was made, if that is not the transaction's time.
    func time(ofChange index: Int) -> HybridTime? {
        let age = transaction.changes[index].age
        return age > 0 ? transaction.info.time.earlier(by: age) : nil
    }

    /// How long before the transaction's time a row was changed last. A row that no change requested has the transaction's time.
    func age(ofRow number: Int) -> Int64 {
        var age: Int64?
        for index in changes(of: number) where outcomes[index].loss == nil {
            age = min(age ?? .max, transaction.changes[index].age)
        }
        return age ?? 0
    }

    /// The tombstone of a restored row.
    func tombstone(of row: RebasedRow) -> RowIdentities.Tombstone? {
        guard let rowID = row.rowID, row.revives != nil, case .dead(let tombstone) = context.rowIdentities[rowID].state else { return nil }
        return tombstone
    }
}
