public import AnnalsCore

/// What one rebase notes about the foreign entries that it applies. Gone when the rebase commits: nothing is kept
/// per row or cell for later merges.
public struct Marks: Sendable {
    /// A life that ended in the pulled entries.
    public struct Tombstone: Sendable {
        public var row: [Value]
        public var mark: WriteMark
        public var link: Link

        public init(row: [Value], mark: WriteMark, link: Link) {
            self.row = row
            self.mark = mark
            self.link = link
        }
    }

    /// Where a row went whose key has nobody now.
    public enum Link: Hashable, Sendable {
        case dead
        case moved(to: [Value])
        case merged(into: [Value])
        case setAside
    }

    /// A life that began in the pulled entries.
    public struct Birth: Sendable {
        public var mark: WriteMark
        /// The position of the delete that it takes back, when it continues an old life.
        public var revives: Position?
    }

    public private(set) var births: [RowReference: Birth] = [:]
    public private(set) var deaths: [RowReference: Tombstone] = [:]
    /// Keys at which a row arrived by a move: whoever calls such a key from before means another life.
    public private(set) var arrivals: Set<RowReference> = []
    private var cells: [RowReference: [Int: WriteMark]] = [:]

    public init() {}

    public mutating func noteInsert(_ row: RowReference, revives: Position?, by mark: WriteMark) {
        if let revives, deaths[row]?.mark.position == revives {
            deaths[row] = nil
            return
        }
        births[row] = Birth(mark: mark, revives: revives)
        cells[row] = nil
    }

    public mutating func noteUpdate(_ row: RowReference, columns: [Int], by mark: WriteMark) {
        for column in columns { cells[row, default: [:]][column] = mark }
    }

    public mutating func noteDelete(_ row: RowReference, values: [Value], link: Link, by mark: WriteMark) {
        let wasBornHere = births.removeValue(forKey: row) != nil
        let marks = cells.removeValue(forKey: row)
        let hadArrived = arrivals.remove(row) != nil
        if case .moved(let key) = link {
            let target = RowReference(row.table, key)
            cells[target] = marks
            arrivals.insert(target)
            if wasBornHere { births[target] = Birth(mark: mark, revives: nil) }
        }
        // The life that the outbox may mean is the one that was there before the pulled entries.
        if !wasBornHere, !hadArrived || deaths[row] == nil { deaths[row] = Tombstone(row: values, mark: mark, link: link) }
    }

    /// True when the row that is now at this key is not the one that was there before the pulled entries.
    public func isAnotherLife(_ row: RowReference) -> Bool {
        births[row] != nil || arrivals.contains(row)
    }

    /// The last foreign writer of one cell since the outbox's base.
    public func writer(of row: RowReference, column: Int) -> WriteMark? {
        cells[row]?[column] ?? births[row]?.mark
    }

    /// The latest foreign writer of anything in the row.
    public func latestWriter(of row: RowReference) -> WriteMark? {
        let times = (cells[row].map { Array($0.values) } ?? []) + (births[row].map { [$0.mark] } ?? [])
        return times.max { ($0.time, $0.replica) < ($1.time, $1.replica) }
    }
}
