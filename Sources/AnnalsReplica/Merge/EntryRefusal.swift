import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
import GRDB

/// An entry of the log that cannot be applied, and the reason. The store stays unchanged.
struct EntryRefusal: TranslatableError {
    package var entry: RefusedEntry
    package var reason: any Error
    /// Details of the reason for the message, such as the name of a constraint or of the missing parent.
    package var detail: String
    package var space: SpaceName

    /// The error for the app. If the reason is an `AnnalsError`, its message stays.
    package func annalsError(operation: String, path: String) -> AnnalsError {
        let translated = StoreError.translate(reason, operation: operation, path: path)
        var error = translated
        error.entry = entry
        guard !(reason is AnnalsError) else {
            let isPlaced = error.message.contains("position \(entry.position)")
            let what = isPlaced ? "it is" : "the entry at position \(entry.position) is"
            if !author.isEmpty || !isPlaced { error.message += " (\(what)\(author.isEmpty ? " the cause" : author))" }
            if entry.rule == .badSchema {
                error.add(
                    hint: "If no program can apply it, ask the relay's operator to void it",
                    commandHint: "If no program can apply it, ask the relay's operator to void it: "
                        + "annals relay void \(entry.position) --space \(space)")
            }
            return error
        }
        if reason is MergeError, error.code == .waitingForMigration { error.code = .corruptBatch }
        error.message = "the entry at position \(entry.position)\(author) cannot be applied: \(detail)"
        error.hint = hint(void: "position \(entry.position) of the space \(space)", verify: "Check the store with verify()")
        error.commandHint = commandHint
        return error
    }

    private var author: String {
        guard let author = entry.author else { return "" }
        let transaction = entry.transaction.map { ", transaction \($0)" } ?? ""
        guard let name = entry.authorName else { return " by replica \(author)\(transaction)" }
        return " by \(name) (replica \(author)\(transaction))"
    }

    private var commandHint: String {
        hint(void: "annals relay void \(entry.position) --space \(space)", verify: "Run annals verify")
    }

    /// - Parameters:
    ///   - void: which entry to void, or how.
    ///   - verify: how to check the store.
    private func hint(void: String, verify: String) -> String {
        switch entry.rule {
        case .check:
            // After a void the author sends its rows again.
            return "Nothing was changed. The author of the entry wrote the row while CHECK constraints were off. Correct the row in the "
                + "author's store, then ask the relay's operator to void the entry (\(void))"
        case .missingRow, .otherValue, .unique, .foreignKey:
            return "Nothing was changed. \(verify). If it finds nothing, ask the relay's operator to void the entry (\(void)). "
                + "If it finds a problem, keep this file and clone the space again"
        default:
            return "Nothing was changed. Ask the relay's operator to void the entry (\(void))"
        }
    }
}

extension PageApplier {
    /// Reads the clear parts of a page. If that fails, the error names the frame that cannot be read.
    package func naming(_ page: Page, _ read: (Page) throws -> Entries) throws -> Entries {
        do {
            return try read(page)
        } catch let error as WireError {
            guard let rule = Self.rule(of: error) else { throw error }
            // Searches for the smallest number of frames that cannot be read. The last of these frames is wrong.
            var (readable, unreadable) = (0, page.frames.count)
            while unreadable - readable > 1 {
                let count = readable + (unreadable - readable) / 2
                var part = page
                part.frames = Array(page.frames.prefix(count))
                if (try? read(part)) == nil { unreadable = count } else { readable = count }
            }
            guard unreadable > 0, page.frames.indices.contains(unreadable - 1) else { throw error }
            let frame = page.frames[unreadable - 1]
            let entry = RefusedEntry(position: max(frame.firstPosition, state.position.next), rule: rule)
            throw try refusal(completed(entry, in: frame), error, "\(error)")
        }
    }

    /// Runs a step over the entries of a page. If it refuses an entry, the error names the entry.
    package mutating func naming<T>(_ entries: Entries, _ body: (inout PageApplier) throws -> T) throws -> T {
        do {
            return try body(&self)
        } catch {
            guard let (entry, detail) = try refusedEntry(error, entries) else { throw error }
            throw refusal(entry, error, detail)
        }
    }

    /// The error for the first row without its parent.
    func danglingError() throws -> any Error {
        guard let (first, position) = try session.checks.firstDangling() else {
            return MergeError.danglingReference(table: "", key: [], parent: "")
        }
        let parent = try session.table(named: first.child.table).references[first.foreignKey].parentTable
        if first.child.key.contains(.null) {
            // The entry is right: other replicas do not have this row.
            return AnnalsError(
                .constraint, operation: "sync",
                "the parent in \(parent) of a row of \(first.child.table) was deleted on another replica, and rows with NULL in their key are "
                    + "not merged",
                hint: "Nothing was changed. Set the key of such rows, change their reference or delete them")
        }
        return MergeError.danglingReference(table: first.child.table, key: first.child.key, parent: parent, position: position)
    }

    private func refusal(_ entry: RefusedEntry, _ reason: any Error, _ detail: String) -> EntryRefusal {
        EntryRefusal(entry: entry, reason: reason, detail: detail, space: state.space)
    }

    /// nil if no entry caused the error.
    private func refusedEntry(_ error: any Error, _ entries: Entries) throws -> (RefusedEntry, detail: String)? {
        var entry = RefusedEntry(position: state.position.next, rule: .damagedBatch)
        let detail: String
        switch error {
        case let error as WireError:
            guard let rule = Self.rule(of: error) else { return nil }
            entry.rule = rule
            entry.position = firstUnreadable(entries) ?? entry.position
            detail = Self.words(for: error)
        case let error as AnnalsError:
            guard let known = error.entry ?? Self.schemaRefusal(error, entry) else { return nil }
            entry = known
            detail = ""
        case MergeError.unknownTable(let table):
            // A replica that adds a table pushes a schema entry before the table's rows.
            (entry.table, entry.rule) = (table, .badSchema)
            detail = "it has rows of the table \(table), which no entry of the log adds"
        case MergeError.unknownColumn(let table, let column):
            (entry.table, entry.column, entry.rule) = (table, column, .badSchema)
            detail = "it has values of the column \(table).\(column), which no entry of the log adds"
        case MergeError.unknownLayout:
            detail = "it names a table that its batch does not describe"
        case MergeError.diverged(let divergence):
            guard let position = divergence.position else { return nil }
            (entry.position, entry.table) = (position, divergence.table)
            detail = describe(divergence, &entry)
        case MergeError.danglingReference(let table, _, let parent, let position?):
            (entry.position, entry.table, entry.rule) = (position, table, .foreignKey)
            detail = "a row of \(table) would have no parent in \(parent)"
        default:
            return nil
        }
        if let table = entry.table.flatMap({ try? session.table(named: $0) })?.definition {
            entry.keyColumns = table.primaryKey.map { table.columns[$0].name }
        }
        guard let frame = entries.frame(of: entry.position) else { return (entry, detail) }
        return (try completed(entry, in: frame), detail)
    }

    /// Adds the author and the transaction, as far as the log shows them.
    private func completed(_ entry: RefusedEntry, in frame: LogFrame) throws -> RefusedEntry {
        var entry = entry
        guard let header = try? BatchHeader.parse(frame.batch) else { return entry }
        entry.author = header.replica
        let index = header.certificates.indices.first { frame.position(of: $0) == entry.position }
        entry.digest = index.map { header.certificates[$0].digest }
        var name: String?
        if let index, let batch = try? Batch.open(frame.batch, cipher: cipher), let info = try? batch.body(index).info {
            entry.transaction = info.id
            name = info.replicaName
        }
        name = try name ?? ReplicaNames.load(db)[header.replica]
        entry.authorName = name.flatMap { $0.isEmpty ? nil : String($0.prefix(EntryLimits.authorCharacters)) }
        return entry
    }

    /// The position of the first batch that cannot be opened, or of its first transaction that does not match its digest.
    private func firstUnreadable(_ entries: Entries) -> Position? {
        for case .batch(let frame, let indices) in entries.sources {
            do {
                _ = try Batch.open(frame.batch, cipher: cipher)
            } catch {
                if case .badDigest(let index) = error, let position = frame.position(of: index) { return position }
                return frame.position(of: indices.lowerBound)
            }
        }
        return nil
    }

    private static func rule(of error: WireError) -> RefusedEntry.Rule? {
        switch error {
        // The entry of a newer program is correct. This program cannot read it.
        case .newerVersion, .olderVersion: nil
        case .badSignature: .badSignature
        case .missingKey: .missingKey
        case .notSealed, .badSeal: .badSeal
        case .badDigest: .wrongDigest
        case .badValue("schema"): .badSchema
        case .badValue("footprint"): .badFootprint
        case .badValue, .badPiece, .tooLarge: .badValue
        case .truncated, .badMagic, .badChecksum, .badLength, .voided: .damagedBatch
        }
    }

    /// Describes the error, if the name of the value alone does not.
    private static func words(for error: WireError) -> String {
        switch error {
        case .badValue("footprint"): "it changes more than its footprint covers, and the relay compares entries by their footprints"
        case .badValue("key"): "a row in it has an incomplete key, or a key that does not fit the table"
        case .badValue("columns"): "a table in it has a column twice"
        default: "\(error)"
        }
    }

    private static func schemaRefusal(_ error: AnnalsError, _ entry: RefusedEntry) -> RefusedEntry? {
        switch error.code {
        case _ where error.underlying is UnwritableTable: nil
        case .schemaRefused: RefusedEntry(position: entry.position, rule: .badSchema)
        case .corruptBatch: RefusedEntry(position: entry.position, rule: .badValue)
        default: nil
        }
    }

    /// The message does not contain the values, because they are the user's data.
    private func describe(_ divergence: Divergence, _ entry: inout RefusedEntry) -> String {
        switch divergence.kind {
        case .missingRow:
            entry.rule = .missingRow
            return "it changes a row of \(divergence.table) that this replica does not have"
        case .otherValue(let column, _, _):
            entry.rule = .otherValue
            entry.column = column
            return "\(divergence.table).\(column) has another value here than the entry states"
        case .refused(let reason):
            entry.rule =
                switch reason {
                case _ where reason.hasPrefix("CHECK "): .check
                case _ where reason.hasPrefix("UNIQUE "): .unique
                case _ where reason.hasPrefix("NOT NULL "): .notNull
                case _ where reason.hasPrefix("FOREIGN KEY "): .foreignKey
                default: .constraint
                }
            return "a row of \(divergence.table) cannot be written (\(reason))"
        }
    }
}

extension Entries {
    /// The frame with the entry at a position. For a position among the parts of a transaction without a frame, the last part in the page.
    fileprivate func frame(of position: Position) -> LogFrame? {
        for source in sources {
            switch source {
            case .batch(let frame, _) where frame.firstPosition...frame.lastPosition ~= position: return frame
            case .parts(let parts) where parts.first...parts.last ~= position:
                return parts.frames.first { $0.firstPosition == position } ?? parts.frames.last
            default: continue
            }
        }
        return nil
    }
}

/// Limits of the description of an entry.
enum EntryLimits {
    /// The length of an author's name, because the author chose it.
    static let authorCharacters = 64
}
