public import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import GRDB

/// Restricts a difference to tables, to one row, or to columns.
///
///     let invoices = DifferenceFilter(tables: ["invoice"], columns: ["amount"])
///     let changed = try await store.diff(from: yesterday, to: today, only: invoices)
public struct DifferenceFilter: Hashable, Sendable {
    /// The names of tracked tables; empty for all.
    public var tables: [String]
    /// The key of the only row, one value for each column of the key, in the key's order; nil for all rows. It needs exactly one table.
    public var key: [Value]?
    /// The names of columns; empty for all. An updated row is left out if none of them differs. Changes have only these columns, and
    /// tables without any of them are left out.
    public var columns: [String]

    public init(tables: [String] = [], key: [Value]? = nil, columns: [String] = []) {
        self.tables = tables
        self.key = key
        self.columns = columns
    }
}

/// A filter whose names and key were looked up in a store.
struct ChosenDifference {
    /// Indices of columns by table; nil for all columns of all tables.
    private let columns: [Int64: [Int]]?
    private let tables: Set<Int64>?
    /// The only row.
    let row: RowIdentity?

    /// - Throws: `AnnalsError` with code `notTracked` for a table, or `usage` for a column or a key that does not fit.
    init(_ filter: DifferenceFilter, _ tables: TrackedTables, _ db: Database) throws {
        let entries = try filter.tables.map { try NamedRow.table($0, in: tables, operation: "diff") }
        self.tables = entries.isEmpty ? nil : Set(entries.map(\.id))
        row = try filter.key.map { key in
            guard let entry = entries.first, Set(entries.map(\.id)).count == 1 else {
                throw AnnalsError(
                    .usage, operation: "diff", "a key needs exactly one table", hint: "Name the row's table in tables",
                    commandHint: "Name the row's table with --table")
            }
            let rule = IdentityRule(entry.definition)
            return try NamedRow.identity(of: NamedRow.stored(key, of: entry, tables, db, operation: "diff"), rule)
        }
        columns = try Self.columns(filter.columns, of: entries.isEmpty ? tables.entries : entries)
    }

    private static func columns(_ names: [String], of entries: [TrackedTables.Entry]) throws -> [Int64: [Int]]? {
        guard !names.isEmpty else { return nil }
        func indexes(_ name: String, _ entry: TrackedTables.Entry) -> [Int] {
            entry.definition.columns.indices.filter { entry.definition.columns[$0].name.isSameIdentifier(as: name) }
        }
        if let unknown = names.first(where: { name in entries.allSatisfy { indexes(name, $0).isEmpty } }) {
            throw AnnalsError(
                .usage, operation: "diff",
                entries.count == 1
                    ? "\(entries[0].definition.name) has no column \(unknown) with history" : "no tracked table has a column \(unknown)",
                hint: "Use the current name of a stored column")
        }
        let found = entries.map { entry in (entry.id, Set(names.flatMap { indexes($0, entry) }).sorted()) }
        return Dictionary(found.filter { !$0.1.isEmpty }, uniquingKeysWith: { first, _ in first })
    }

    func holds(_ entry: TrackedTables.Entry) -> Bool {
        tables?.contains(entry.id) ?? true && columns.map { $0[entry.id] != nil } ?? true
    }

    /// The chosen columns of a table; nil for all.
    func columns(of entry: TrackedTables.Entry) -> [Int]? { columns?[entry.id] }
}

extension NetChange {
    /// Whether it is an insert, a delete, or an update of one of the columns.
    func differs(in columns: [Int]?) -> Bool {
        guard let columns, let old, let new else { return true }
        return columns.contains { old[$0] != new[$0] }
    }
}
