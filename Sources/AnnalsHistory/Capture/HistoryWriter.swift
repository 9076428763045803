package import AnnalsCore
package import AnnalsSchema
package import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// Writes the raw changes of one table while its triggers are off, exactly as the triggers would.
package final class HistoryWriter {
    /// The maximum number of bytes of values in one raw change; a larger update becomes two raw changes. SQLite's rows have at most
    /// 1 GB, and a raw change has the values of two rows.
    var largestUpdate = 980_000_000
    /// The id of the newest raw change of this table.
    package var lastID: Int64

    private let columnCount: Int
    private let maskCount: Int
    /// Indices of the key's columns, which an update always writes.
    private let key: [Int]
    /// Indices of columns whose unchanged large values an update leaves out, and the length above which a value is large.
    private let mayBeLarge: [Int]
    private let largeValue: Int
    private let insertStatement: PreparedStatement
    private let updateStatement: PreparedStatement
    private let deleteStatement: PreparedStatement
    /// The time of writing as a Julian day.
    private let now: Double
    private let author: AuthorsTime

    /// - Parameter author: the time of changes that were written on another replica.
    package init(_ db: Database, _ definition: DeclaredTable, layoutID: Int64, author: AuthorsTime = AuthorsTime()) throws {
        self.author = author
        let table = StoreSchema.changesTable(layoutID)
        let columnCount = definition.columns.count
        let old = (0..<columnCount).map { "o\($0)" }
        let new = (0..<columnCount).map { "n\($0)" }
        func statement(_ operation: StoreSchema.Operation, _ columns: [String]) throws -> PreparedStatement {
            let placeholders = (0..<columns.count).map { "?\($0 + 3)" }
            return try PreparedStatement(
                db,
                """
                INSERT INTO main.\(table) (id, at, op, \(columns.joined(separator: ", ")))
                VALUES (?1, ?2, \(operation.rawValue), \(placeholders.joined(separator: ", ")))
                """)
        }
        self.columnCount = columnCount
        key = definition.primaryKey
        mayBeLarge = definition.columnIndexesThatMayBeLarge
        largeValue = try StoreSchema.largeValue(db)
        maskCount = StoreSchema.maskCount(columnCount)
        let masks = (0..<maskCount).map { "m\($0)" }
        lastID = try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(id) FROM main.\(table)")) ?? 0
        now = try Double.fetchOne(db, sql: "SELECT julianday('now')") ?? 0
        insertStatement = try statement(.insert, new)
        updateStatement = try statement(.update, old + new + masks)
        deleteStatement = try statement(.delete, old)
    }

    // MARK: From values

    package func insert(_ row: [Value]) throws {
        try run(insertStatement) { statement in
            for (columnIndex, value) in row.enumerated() { statement.bind(columnIndex + 3, value) }
        }
    }

    package func delete(_ row: [Value]) throws {
        try run(deleteStatement) { statement in
            for (columnIndex, value) in row.enumerated() { statement.bind(columnIndex + 3, value) }
        }
    }

    /// Writes the old row, and of the new row the key and the changed values.
    package func update(_ old: [Value], to new: [Value]) throws {
        if let between = between(old, new) {
            try write(old, to: between)
            return try write(between, to: new)
        }
        try write(old, to: new)
    }

    /// A row between the old and the new one, without the changed values, if both rows together are too large for one raw change.
    /// The net change of a row is computed from its first and last state, so an extra step does not matter.
    private func between(_ old: [Value], _ new: [Value]) -> [Value]? {
        let size = old.reduce(0) { $0 + $1.byteCount }
        guard size + new.reduce(0, { $0 + $1.byteCount }) > largestUpdate else { return nil }
        guard size + old.indices.reduce(0, { old[$1] == new[$1] ? $0 : $0 + new[$1].byteCount }) > largestUpdate else { return nil }
        let between = old.indices.map { old[$0] == new[$0] || key.contains($0) ? old[$0] : .null }
        return between == old || between == new ? nil : between
    }

    private func write(_ old: [Value], to new: [Value]) throws {
        let changed = old.indices.filter { old[$0] != new[$0] }
        let leftOut =
            mayLeaveOut(changed, isNull: { old[$0].isNull }) ? mayBeLarge.filter { old[$0].isLarge(largeValue) && old[$0] == new[$0] } : []
        try run(updateStatement) { statement in
            for (columnIndex, value) in old.enumerated() {
                statement.bind(columnIndex + 3, value)
                statement.bind(columnCount + columnIndex + 3, .null)
            }
            for columnIndex in key + changed { statement.bind(columnCount + columnIndex + 3, new[columnIndex]) }
            for columnIndex in leftOut { bindLeftOut(columnIndex, statement) }
            bindMasks(changed, statement)
        }
    }

    /// Updates leave out values only if the key identifies the row before and after.
    private func mayLeaveOut(_ changed: [Int], isNull: (Int) -> Bool) -> Bool {
        !mayBeLarge.isEmpty && !key.contains { isNull($0) || changed.contains($0) }
    }

    private func bindLeftOut(_ columnIndex: Int, _ statement: PreparedStatement) {
        statement.bind(columnIndex + 3, .null)
        statement.bind(columnCount + columnIndex + 3, 1)
    }

    private func bindMasks(_ changed: [Int], _ statement: PreparedStatement) {
        for mask in 0..<maskCount {
            statement.bind(2 * columnCount + mask + 3, RawChangeColumns.mask(mask, ofChanged: changed))
        }
    }

    // MARK: From a body's bytes

    /// `columnIndexes` maps the values to this table's columns.
    package func insert(
        _ values: [WireValue], columnIndexes: [Int], in bytes: UnsafeRawBufferPointer, missing: [(columnIndex: Int, value: Value)]
    ) throws {
        try run(insertStatement) { statement in
            for (index, columnIndex) in columnIndexes.enumerated() { statement.bind(columnIndex + 3, lending: values[index], in: bytes) }
            for (columnIndex, value) in missing { statement.bind(columnIndex + 3, value) }
        }
    }

    /// Deletes the current row of `found`.
    package func delete(_ found: PreparedStatement) throws {
        try run(deleteStatement) { statement in
            for columnIndex in 0..<columnCount { statement.bind(columnIndex + 3, columnOf: found, columnIndex) }
        }
    }

    /// Gives the current row of `found` new values in some columns.
    package func update(_ found: PreparedStatement, columnIndexes: [Int], new: [WireValue], in bytes: UnsafeRawBufferPointer) throws {
        var size = new.reduce(0) { $0 + $1.byteCount }
        let leavesOut = mayLeaveOut(columnIndexes, isNull: found.isNull)
        for columnIndex in 0..<columnCount {
            if leavesOut, mayBeLarge.contains(columnIndex), !columnIndexes.contains(columnIndex), found.isLarge(columnIndex, largeValue) {
                bindLeftOut(columnIndex, updateStatement)
            } else {
                size += updateStatement.bind(columnIndex + 3, columnOf: found, columnIndex)
                updateStatement.bind(columnCount + columnIndex + 3, .null)
            }
        }
        guard size <= largestUpdate else {
            let old = found.values(0..<columnCount)
            var row = old
            for (columnIndex, value) in zip(columnIndexes, new) { row[columnIndex] = bytes.value(value) }
            return try update(old, to: row)
        }
        try run(updateStatement) { statement in
            for columnIndex in key { statement.bind(columnCount + columnIndex + 3, columnOf: found, columnIndex) }
            for (index, columnIndex) in columnIndexes.enumerated() {
                statement.bind(columnCount + columnIndex + 3, lending: new[index], in: bytes)
            }
            bindMasks(columnIndexes, statement)
        }
    }

    private func run(_ statement: PreparedStatement, _ bind: (PreparedStatement) -> Void) throws {
        statement.bind(1, lastID + 1)
        statement.bind(2, real: author.day ?? now)
        bind(statement)
        try statement.run()
        lastID += 1
    }
}

/// When the author of the next changes wrote them. The writers of all tables of a merge share one.
package final class AuthorsTime {
    /// As a Julian day; nil if the changes are written now, by this store.
    fileprivate private(set) var day: Double?
    private var age: Int64 = 0

    package init() {}

    /// - Parameter age: how long before the transaction's time, in milliseconds.
    package func set(_ transaction: HybridTime, age: Int64) {
        guard day == nil || age != self.age else { return }
        (day, self.age) = (JulianDay.day(transaction.earlier(by: age).milliseconds), age)
    }

    package func clear() { day = nil }
}

extension Value {
    fileprivate func isLarge(_ length: Int) -> Bool {
        switch self {
        case .text, .blob: byteCount > length
        case .null, .integer, .real: false
        }
    }
}

extension WireValue {
    fileprivate var byteCount: Int {
        switch self {
        case .text(let range), .blob(let range): range.count
        default: 0
        }
    }
}
