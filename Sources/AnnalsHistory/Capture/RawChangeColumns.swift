import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// How raw changes of one column list stand in the columns of a query, and what they say there.
///
/// `StoreSchema.changesColumns` says which values a raw change has. What reads or writes them is here and in the two writers.
struct RawChangeColumns {
    static let id = 0
    static let operation = 1
    /// Of lists whose raw changes carry rowids.
    static let oldRowid = 2
    static let newRowid = 3

    let firstMask: Int
    let firstOld: Int
    let firstNew: Int
    private let isByRowid: Bool
    private let count: Int
    private let maskCount: Int
    /// Columns that are not the key's, by their indices.
    private let beside: [Int]
    private let head: [String]
    private let table: String

    init(_ table: TrackedTable) {
        isByRowid = table.key.isByRowid
        count = table.columns.count
        maskCount = StoreSchema.maskCount(count)
        beside = table.columns.indices.filter { !table.key.places.contains($0) }
        let identity = ["id", "op"] + (isByRowid ? ["ro", "rn"] : [])
        firstMask = identity.count
        head = identity + (0..<maskCount).map { "m\($0)" }
        firstOld = head.count
        firstNew = head.count + count
        self.table = StoreSchema.changesTable(table.id)
    }

    /// A query over the raw changes from ?1 to ?2.
    ///
    /// - Parameter indices: of the columns whose values it has; nil for all of them, which `change` needs.
    func select(_ indices: [Int]? = nil) -> String {
        let indices = indices ?? Array(0..<count)
        let columns = head + indices.map { "o\($0)" } + indices.map { "n\($0)" }
        return "SELECT \(columns.joined(separator: ", ")) FROM main.\(table) WHERE id BETWEEN ?1 AND ?2"
    }

    // MARK: Decoding

    func change(_ operation: StoreSchema.Operation, _ row: some RawChangeRow) -> RawChange {
        var change = RawChange(id: row.integer(Self.id), old: nil, new: nil)
        if operation != .insert {
            change.old = values(row, from: firstOld)
            if isByRowid { change.oldRowid = row.integer(Self.oldRowid) }
        }
        if operation != .delete {
            change.new = change.old.map { updated($0, row) } ?? values(row, from: firstNew)
            if let old = change.old { change.leftOut = leftOut(old, row) }
            if isByRowid { change.newRowid = row.integer(Self.newRowid) }
        } else {
            // A delete has no use for its mask, and says there what it precedes.
            change.precedes = row.value(firstMask).integer
        }
        return change
    }

    private func values(_ row: some RawChangeRow, from first: Int) -> [Value] {
        (first..<first + count).map { row.value($0) }
    }

    /// An update holds only what changed of the new row: the masks say which columns did.
    private func updated(_ old: [Value], _ row: some RawChangeRow) -> [Value] {
        var new = old
        for mask in 0..<maskCount {
            var bits = UInt64(bitPattern: row.integer(firstMask + mask))
            while bits != 0 {
                let columnIndex = mask * StoreSchema.columnsPerMask + bits.trailingZeroBitCount
                if new.indices.contains(columnIndex) { new[columnIndex] = row.value(firstNew + columnIndex) }
                bits &= bits - 1
            }
        }
        return new
    }

    /// What an update did not change is NULL in its new row, unless it says there that it left something out of the old one.
    private func leftOut(_ old: [Value], _ row: some RawChangeRow) -> [Int] {
        var indices: [Int] = []
        for columnIndex in beside where old[columnIndex].isNull && !row.isNull(firstNew + columnIndex) {
            if !StoreSchema.isMarked(columnIndex, mask: { row.integer(firstMask + $0) }) { indices.append(columnIndex) }
        }
        return indices
    }

    // MARK: Encoding

    /// One of an update's masks.
    static func mask(_ number: Int, ofChanged indices: [Int]) -> Int64 {
        var bits: Int64 = 0
        for index in indices where index / StoreSchema.columnsPerMask == number { bits |= 1 << Int64(index % StoreSchema.columnsPerMask) }
        return bits
    }
}

/// The row on which a statement stands.
protocol RawChangeRow {
    func integer(_ column: Int) -> Int64
    func isNull(_ column: Int) -> Bool
    func value(_ column: Int) -> Value
}

extension PreparedStatement: RawChangeRow {}

extension Statement: RawChangeRow {
    func integer(_ column: Int) -> Int64 { integer(at: column) }
    func isNull(_ column: Int) -> Bool { isNull(at: column) }
    func value(_ column: Int) -> Value { value(at: column) }
}
