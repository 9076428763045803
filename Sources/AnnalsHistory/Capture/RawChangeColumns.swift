import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// The columns of a query that reads raw changes of one column list, and the decoding of its rows.
///
/// `StoreSchema.changesColumns` lists the values of a raw change. Only this file, `HistoryWriter` and `RawChangeWriter` depend on
/// their layout.
struct RawChangeColumns {
    static let id = 0
    static let operation = 1
    /// Only if the raw changes have rowids.
    static let oldRowid = 2
    static let newRowid = 3

    let firstMask: Int
    let firstOld: Int
    let firstNew: Int
    private let isByRowid: Bool
    private let count: Int
    private let maskCount: Int
    /// Indices of the columns that do not belong to the key.
    private let beside: [Int]
    private let head: [String]
    private let table: String

    init(_ table: TrackedTable) {
        isByRowid = table.key.isByRowid
        count = table.columns.count
        maskCount = StoreSchema.maskCount(count)
        beside = table.columns.indices.filter { !table.key.columnIndexes.contains($0) }
        let identity = ["id", "op"] + (isByRowid ? ["ro", "rn"] : [])
        firstMask = identity.count
        head = identity + (0..<maskCount).map { "m\($0)" }
        firstOld = head.count
        firstNew = head.count + count
        self.table = StoreSchema.changesTable(table.id)
    }

    /// A query over the raw changes from ?1 to ?2.
    ///
    /// - Parameters:
    ///   - indices: The columns whose values the query reads; nil for all of them. `change` needs all.
    ///   - withTime: Whether `time` can be read too. It needs all values.
    func select(_ indices: [Int]? = nil, withTime: Bool = false) -> String {
        let indices = indices ?? Array(0..<count)
        let columns = head + indices.map { "o\($0)" } + indices.map { "n\($0)" } + (withTime ? ["at"] : [])
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
            if let old = change.old {
                (change.new, change.leftOut) = updated(old, row)
            } else {
                change.new = values(row, from: firstNew)
            }
            if isByRowid { change.newRowid = row.integer(Self.newRowid) }
        } else {
            // A delete needs no mask, so m0 holds the id of the change that it precedes.
            change.precedes = row.value(firstMask).integer
        }
        return change
    }

    /// When the change was written; nil if that is unknown.
    func time(_ row: some RawChangeRow) -> Date? { JulianDay.date(row.value(firstNew + count)) }

    /// The same in milliseconds since 1970.
    func milliseconds(_ row: some RawChangeRow) -> Int64? {
        guard case .real(let day) = row.value(firstNew + count), JulianDay.isDate(day) else { return nil }
        return JulianDay.milliseconds(day)
    }

    private func values(_ row: some RawChangeRow, from first: Int) -> [Value] {
        (first..<first + count).map { row.value($0) }
    }

    /// The new row of an update, and the indices of the values that it left out. Both rows have NULL there.
    private func updated(_ old: [Value], _ row: some RawChangeRow) -> (new: [Value], leftOut: [Int]) {
        guard row.integer(firstMask) & StoreSchema.unchangedAreMarked != 0 else { return withChanged(old, row) }
        var new = old
        var leftOut: [Int] = []
        for columnIndex in 0..<count {
            let value = row.value(firstNew + columnIndex)
            switch value {
            case .integer(1) where isMarked(columnIndex, row): continue
            case .integer(2) where isMarked(columnIndex, row):
                new[columnIndex] = .null
                leftOut.append(columnIndex)
            default: new[columnIndex] = value
            }
        }
        return (new, leftOut)
    }

    /// The form in which the masks have the changed columns.
    private func withChanged(_ old: [Value], _ row: some RawChangeRow) -> (new: [Value], leftOut: [Int]) {
        var new = old
        for mask in 0..<maskCount {
            var bits = UInt64(bitPattern: row.integer(firstMask + mask))
            while bits != 0 {
                let columnIndex = mask * StoreSchema.columnsPerMask + bits.trailingZeroBitCount
                if new.indices.contains(columnIndex) { new[columnIndex] = row.value(firstNew + columnIndex) }
                bits &= bits - 1
            }
        }
        let leftOut = beside.filter { columnIndex in
            old[columnIndex].isNull && !row.isNull(firstNew + columnIndex) && !isMarked(columnIndex, row)
        }
        return (new, leftOut)
    }

    private func isMarked(_ columnIndex: Int, _ row: some RawChangeRow) -> Bool {
        StoreSchema.isMarked(columnIndex) { row.integer(firstMask + $0) }
    }

    // MARK: Encoding

    /// The mask with this number of an update that changed these columns.
    static func mask(_ number: Int, ofChanged indices: [Int]) -> Int64 {
        var bits: Int64 = 0
        for index in indices where index / StoreSchema.columnsPerMask == number { bits |= 1 << Int64(index % StoreSchema.columnsPerMask) }
        return bits
    }
}

/// The current row of a statement.
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
