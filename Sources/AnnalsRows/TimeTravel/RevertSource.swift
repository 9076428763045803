import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import Foundation
import GRDB

/// What a revert undoes. `Reverting` visits it twice, once for each pass.
protocol RevertSource: AnyObject {
    var subject: RevertSubject { get }
    /// The first transaction that is undone; nil if everything after a point is.
    var first: Int64? { get }
    /// Names of tables that the subject changed and that have no history now.
    func lostTables() throws -> [String]
    func forEach(_ visit: (TrackedTables.Entry, UndoneChange) throws -> Void) throws
    /// Whether the revert undoes a transaction, so that its changes are not in the way.
    func undoes(_ transaction: HistoryTransaction) -> Bool
    /// What an undone transaction wrote after the undone changes; nil for any other transaction.
    func laterParts(of number: Int64) throws -> [NetChanges.Part]?
    /// To be called at the end.
    func drop() throws
}

extension RevertSource {
    func laterParts(of number: Int64) -> [NetChanges.Part]? { nil }
}

/// Words for messages.
enum RevertSubject: Hashable, Sendable {
    case transaction(Int64)
    case author(String)
    case point(HistoryPoint)

    var operation: String {
        if case .point = self { "restore" } else { "revert" }
    }

    var name: String {
        switch self {
        case .transaction(let number): "transaction \(number)"
        case .author(let name): "the work of \(name)"
        case .point(let point): "the rows of \(point)"
        }
    }

    var cannot: String {
        if case .point = self { "\(name) cannot be restored" } else { "\(name) cannot be reverted" }
    }
}

/// The changes of one transaction, as history has them.
final class RevertedTransaction: RevertSource {
    private let db: Database
    private let changes: NetChanges
    private let number: Int64
    private let table: TrackedTables.Entry?
    private let (start, end): (Int64?, Int64?)

    /// - Parameters:
    ///   - table: the only table whose changes are undone; nil for all.
    ///   - moments: the only changes that are undone; nil for all.
    init(_ db: Database, _ changes: NetChanges, _ number: Int64, of table: TrackedTables.Entry?, between moments: RevertMoments?) {
        self.db = db
        self.changes = changes
        self.number = number
        self.table = table
        (start, end) = (moments?.after.map(\.milliseconds), moments?.before.map(\.milliseconds))
    }

    private func parts() throws -> [NetChanges.Part] {
        try start == nil && end == nil ? changes.parts(of: sections()) : changes.parts(of: number, sections(), after: start, before: end)
    }

    func laterParts(of number: Int64) throws -> [NetChanges.Part]? {
        guard let end, number == self.number else { return nil }
        return try changes.parts(of: number, sections(), after: end - 1, before: nil)
    }

    /// Without rows that a table had before it was tracked: the transaction did not insert them.
    private func sections() throws -> [NetChanges.Section] {
        let recorded = try UnknownRows.lists(recordedIn: number, db)
        return try changes.sections(of: number).filter { section in
            guard !recorded.contains(section.layout) else { return false }
            return try table.map { try changes.translation(section.layout)?.entry.id == $0.id } ?? true
        }
    }

    /// - Throws: `AnnalsError` with code `rowNotFound` if the transaction wrote nothing between the moments.
    func checkMoments() throws {
        guard start != nil || end != nil, try parts().isEmpty else { return }
        throw AnnalsError(
            .rowNotFound, operation: "revert", "transaction \(number) wrote nothing between these moments",
            hint: "The steps of history have the times of its writes, in UTC. A write at exactly one of the moments is not between them",
            commandHint: "annals history --steps prints the times of its writes. A write at exactly one of the times is not between "
                + "them: give the time of the write before. A date without an offset is in UTC")
    }

    var subject: RevertSubject { .transaction(number) }
    var first: Int64? { number }

    func lostTables() throws -> [String] {
        guard table == nil else { return [] }
        return try changes.sections(of: number).filter { try changes.translation($0.layout) == nil }
            .map { try changes.layout($0.layout).layout.name }
    }

    func forEach(_ visit: (TrackedTables.Entry, UndoneChange) throws -> Void) throws {
        let isOwn = try !TransactionTable(db).isImported(number)
        for part in try parts() {
            // The rest of the transaction can be in the way.
            try changes.forEachRow(in: part) { try visit(part.entry, UndoneChange($0, end == nil ? number : number - 1, isOwn: isOwn)) }
        }
    }

    func undoes(_ transaction: HistoryTransaction) -> Bool { transaction.number == number && end == nil }

    func drop() {}
}

/// What the transactions of an author did together, row by row.
///
/// The changes are gathered in temporary tables, because a row's changes are in different transactions. So memory stays constant.
final class RevertedWork: RevertSource {
    private let fold: DifferenceFold
    private let author: WriterName
    private let table: TrackedTables.Entry?
    private var lost: [String] = []
    private var last: Int64 = 0
    private(set) var transactions = 0
    private var range: ClosedRange<Int64> = 0...0
    private var imported: Set<Int64> = []

    /// - Parameter request: selects transactions of the author.
    init(_ db: Database, _ changes: NetChanges, author: WriterName, _ request: HistoryRequest, of table: TrackedTables.Entry?) throws {
        self.author = author
        self.table = table
        fold = DifferenceFold(db, schema: "temp", changes: changes)
        var request = request.written(by: author)
        if let table { request = request.tables(table.definition.name) }
        let ids = table.map { Set([$0.id]) }
        let withdrawn = try SerializableTable(db).withdrawn()
        try HistoryReader(db, tables: changes.tables).forEachTransaction(request) { transaction in
            // `RebasedRows` follows a rebase, which has the author of the work that it repeats.
            guard transaction.origin != .rebase, !withdrawn.contains(transaction.number) else { return true }
            if case .imported = transaction.origin { imported.insert(transaction.number) }
            try fold.add(transaction: transaction.number, of: ids)
            range = (transactions == 0 ? transaction.number : range.lowerBound)...transaction.number
            transactions += 1
            guard table == nil else { return true }
            for section in try changes.sections(of: transaction.number) where try changes.translation(section.layout) == nil {
                let name = try changes.layout(section.layout).layout.name
                if !lost.contains(name) { lost.append(name) }
            }
            return true
        }
        guard transactions > 0 else {
            let what = table.map { " that changed \($0.definition.name)" } ?? ""
            throw AnnalsError(
                .rowNotFound, operation: "revert", "history has no transaction of \(author.name)\(what) between these points",
                hint: "The transactions of the points themselves are not included. HistoryRequest.authors lists those of an author",
                commandHint: "The transactions of the points themselves are not included. annals history --author lists those of an author")
        }
    }

    var subject: RevertSubject { .author(author.name) }
    var first: Int64? { range.lowerBound }

    func lostTables() -> [String] { lost }

    func forEach(_ visit: (TrackedTables.Entry, UndoneChange) throws -> Void) throws {
        for table in fold.tables {
            var current: RowIdentity?
            var undone: UndoneChange?
            func pass() throws {
                if let undone, !undone.isNothing { try visit(table, undone) }
            }
            try fold.forEachStep(of: table) { identity, number, change in
                if identity == current {
                    undone?.merge(change, number, isOwn: !imported.contains(number))
                } else {
                    try pass()
                    (current, undone) = (identity, UndoneChange(change, number, isOwn: !imported.contains(number)))
                }
            }
            try pass()
            try fold.forEachLoose(of: table) { try visit(table, UndoneChange($0, range.lowerBound)) }
        }
    }

    func undoes(_ transaction: HistoryTransaction) -> Bool {
        author.wrote(transaction) && transaction.origin != .rebase && range.contains(transaction.number)
    }

    func drop() throws { try fold.drop() }
}

/// The rows that differ between a point of history and now.
final class RestoredRows: RevertSource {
    private let point: HistoryPoint
    private let changes: NetChanges
    private let fold: DifferenceFold
    /// For each table, the columns that it got after the point.
    private var added: [Int64: Set<Int>] = [:]
    private var lost: [String] = []

    /// - Parameter tables: the tables to restore; nil for all.
    init(_ db: Database, _ changes: NetChanges, to point: HistoryPoint, of tables: [TrackedTables.Entry]?) throws {
        self.point = point
        self.changes = changes
        fold = DifferenceFold(db, schema: "temp", changes: changes)
        let latest = try HistoryBounds(db).latest.number
        let ids = tables.map { Set($0.map(\.id)) }
        for number in stride(from: point.token.number + 1, through: latest, by: 1) {
            if number == point.dividedTransaction {
                try fold.add(after: point, of: ids)
            } else {
                try fold.add(transaction: number, of: ids)
            }
            guard tables == nil else { continue }
            for section in try changes.sections(of: number) where try changes.translation(section.layout) == nil {
                let name = try changes.layout(section.layout).layout.name
                if !lost.contains(name) { lost.append(name) }
            }
        }
        for table in fold.tables { added[table.id] = try changes.columnsAdded(to: table, after: point.token.number) }
    }

    var subject: RevertSubject { .point(point) }
    var first: Int64? { nil }

    /// Tables that are not tracked any more and that the restore leaves as they are.
    var left: [String] { lost }

    func lostTables() -> [String] { [] }

    func forEach(_ visit: (TrackedTables.Entry, UndoneChange) throws -> Void) throws {
        for table in fold.tables {
            let added = added[table.id] ?? []
            try fold.forEachRow(of: table) { change in
                var change = change
                if !added.isEmpty, var old = change.old, let new = change.new {
                    for columnIndex in added { old[columnIndex] = new[columnIndex] }
                    change.old = old
                    guard old != new else { return }
                }
                try visit(table, UndoneChange(change, point.token.number))
            }
        }
    }

    func undoes(_ transaction: HistoryTransaction) -> Bool { false }

    func drop() throws { try fold.drop() }
}

extension Date {
    /// Since 1970.
    fileprivate var milliseconds: Int64 {
        let range = SchemaLimits.facts
        guard !timeIntervalSince1970.isNaN else { return 0 }
        return Int64(min(max((timeIntervalSince1970 * 1_000).rounded(), Double(range.lowerBound)), Double(range.upperBound)))
    }
}
