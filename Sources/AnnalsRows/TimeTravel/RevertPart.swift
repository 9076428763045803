public import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsSchema
import AnnalsSQLite
public import Foundation
package import GRDB

/// A part of what a revert undoes: one table, or in it one row, or only some columns.
///
///     let part = RevertPart(table: "customer", key: [.integer(7)], columns: ["name"])
///     try await store.revert(transaction: transaction.number, part: part)
public struct RevertPart: Hashable, Sendable {
    /// The table's name in the schema.
    public var table: String
    /// The row's key, before or after the transaction, in the key's order; nil for all rows of the table.
    public var key: [Value]?
    /// Only updates in these columns are undone. Rows that the transaction inserted or deleted stay as they are. Empty: whole rows.
    public var columns: [String]

    public init(table: String, key: [Value]? = nil, columns: [String] = []) {
        self.table = table
        self.key = key
        self.columns = columns
    }
}

/// What a revert does with rows that were changed after what it undoes.
public enum LaterChanges: Hashable, Sendable {
    /// The revert is refused, and nothing is changed.
    case refuse
    /// These rows stay as they are, and the others are reverted.
    case keep
    /// Later changes of the same columns and rows are overwritten. A row that was deleted since stays deleted.
    case overwrite
}

/// The moments between which a revert undoes what one transaction wrote; both are excluded. Times have milliseconds.
///
/// Annals records the commits of programs that give no name together, as one transaction. With moments a revert undoes some of them.
///
///     let moments = RevertMoments(after: lunch)
///     try await store.revert(transaction: transaction.number, moments: moments)
public struct RevertMoments: Hashable, Sendable {
    /// nil: from the beginning of the transaction.
    public var after: Date?
    /// nil: to the end of the transaction.
    public var before: Date?

    public init(after: Date? = nil, before: Date? = nil) {
        self.after = after
        self.before = before
    }

    /// Throws `AnnalsError` with code `usage` for a transaction that is one commit.
    package func check(_ number: Int64, _ db: Database) throws {
        guard let row = try TransactionTable(db).row(number) else { return }
        let hasAuthor = try row.value("author") as String? != nil
        guard try hasAuthor || row.value("origin") != TransactionOrigin.external.rawValue else { return }
        let isImported = try row.value("origin") == TransactionOrigin.imported.rawValue
        throw AnnalsError(
            .usage, operation: "revert",
            isImported
                ? "transaction \(number) was written on another replica, and only that store has the times of its writes"
                : "transaction \(number) is one commit, so it has no moments within",
            hint: "Only an external transaction without an author can be divided. Revert all of it, or a table or a row of it")
    }
}

/// A `RevertPart` in a store's tables. It counts what it finds.
final class RevertScope {
    let entry: TrackedTables.Entry
    private let part: RevertPart
    private let rule: IdentityRule
    private let identity: RowIdentity?
    private let key: [Value]
    private let columnIndexes: Set<Int>
    private var rows = 0
    private var matches = 0
    /// Inserted or deleted rows, which a part with columns leaves out.
    private(set) var leftOut = 0

    /// - Throws: `AnnalsError` with code `notTracked`, or `usage` for a wrong key or an unknown column.
    init(_ part: RevertPart, _ session: MergeSession) throws {
        self.part = part
        let entry = try NamedRow.table(part.table, in: session.registry, operation: "revert")
        self.entry = entry
        let definition = entry.definition
        rule = IdentityRule(definition)
        if let given = part.key {
            key = try NamedRow.stored(given, of: entry, session.registry, session.db, operation: "revert")
            identity = NamedRow.identity(of: key, rule)
        } else {
            (key, identity) = ([], nil)
        }
        columnIndexes = try Set(
            part.columns.map { name in
                guard let columnIndex = definition.columnIndex(of: name) else {
                    throw AnnalsError(
                        .usage, operation: "revert", "the table \(definition.name) has no column \(name)",
                        hint: "Its columns are \(definition.columns.map(\.name).joined(separator: ", "))")
                }
                return columnIndex
            })
    }

    /// The part of a change that is undone; nil if there is none.
    ///
    /// - Parameter counts: whether this is the first pass.
    func part(of undone: UndoneChange, counts: Bool) -> UndoneChange? {
        if let identity {
            let isMeant = [undone.change.old, undone.change.new].contains { $0.map { rule.identity(of: $0) } == identity }
            guard isMeant else { return nil }
        }
        if counts { rows += 1 }
        var undone = undone
        if !columnIndexes.isEmpty {
            guard var old = undone.change.old, let new = undone.change.new else {
                if counts { leftOut += 1 }
                return nil
            }
            for columnIndex in old.indices where !columnIndexes.contains(columnIndex) { old[columnIndex] = new[columnIndex] }
            undone.change.old = old
            undone.keepInterrupted(columnIndexes)
            guard !undone.isNothing else { return nil }
        }
        if counts { matches += 1 }
        return undone
    }

    /// - Throws: `AnnalsError` with code `rowNotFound` if the first pass found nothing to undo.
    func expectMatches(_ subject: RevertSubject) throws {
        guard matches == 0 else { return }
        let names = entry.definition.primaryKey.map { entry.definition.columns[$0].name }
        let row = "the row \(ManualEdit.text(key, names)) of \(entry.definition.name)"
        let columns = part.columns.joined(separator: ", ")
        let message =
            if rows == 0 {
                "\(subject.name) did not change \(identity == nil ? "the table \(entry.definition.name)" : row)"
            } else if identity != nil, leftOut > 0 {
                "\(subject.name) inserted or deleted \(row), so no column of it can be reverted alone"
            } else {
                "\(subject.name) did not update \(columns) in \(identity == nil ? "the table \(entry.definition.name)" : row)"
            }
        throw AnnalsError(
            .rowNotFound, operation: "revert", message, hint: "Nothing was changed; history(_:) has the changes of each transaction",
            commandHint: "Nothing was changed; annals show prints the changes of a transaction")
    }
}
