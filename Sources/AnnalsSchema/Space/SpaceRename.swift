import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// The current name of a table or column of the space. A store that uses another name keeps it, because replicas exchange only
/// canonical names.
package struct SpaceRename: Hashable, Codable, Sendable {
    /// The table's canonical name.
    package var table: String
    /// The column's canonical name; nil if the table itself is renamed.
    package var column: String?
    /// The current name.
    package var name: String

    package func isAbout(_ other: SpaceRename) -> Bool {
        table.isSameIdentifier(as: other.table) && column?.foldedIdentifier == other.column?.foldedIdentifier
    }

    /// Whether the store uses this name; false if the table or column was renamed again since.
    package func holds(in tables: TrackedTables) -> Bool {
        guard let entry = tables.table(first: table) else { return false }
        guard let column else { return entry.definition.name.isSameIdentifier(as: name) }
        guard let columnIndex = entry.first.columnIndex(of: column) else { return false }
        return entry.definition.columns[columnIndex].name.isSameIdentifier(as: name)
    }

    // MARK: As a statement of a schema entry

    /// An ALTER TABLE statement that names the table and the column by their canonical names.
    package var statement: String {
        let target = column.map { "RENAME COLUMN \(SQL.quote($0)) TO" } ?? "RENAME TO"
        return "ALTER TABLE \(SQL.quote(table)) \(target) \(SQL.quote(name))"
    }

    /// nil if the statement is not a rename.
    package init?(statement: String) {
        let tokens = SQLToken.all(in: statement)
        func isAlike(_ words: [String?]) -> Bool {
            guard tokens.count == words.count else { return false }
            return zip(tokens, words).allSatisfy { token, word in word.map(token.isWord) ?? (token.identifier != nil) }
        }
        if isAlike(["ALTER", "TABLE", nil, "RENAME", "COLUMN", nil, "TO", nil]) {
            self.init(table: tokens[2].identifier ?? "", column: tokens[5].identifier, name: tokens[7].identifier ?? "")
        } else if isAlike(["ALTER", "TABLE", nil, "RENAME", "TO", nil]) {
            self.init(table: tokens[2].identifier ?? "", column: nil, name: tokens[5].identifier ?? "")
        } else {
            return nil
        }
    }

    package init(table: String, column: String?, name: String) {
        self.table = table
        self.column = column
        self.name = name
    }

    // MARK: Renames that are not in the outbox yet

    /// Stores renames that the next exchange puts into the outbox. Renames that the space has already are left out.
    package static func add(_ renames: [SpaceRename], _ db: Database) throws {
        let renames = try SpaceSchema.load(db)?.news(renames) ?? renames
        guard !renames.isEmpty else { return }
        var waiting = try waiting(db)
        for rename in renames {
            waiting.removeAll { $0.isAbout(rename) }
            waiting.append(rename)
        }
        try save(waiting, db)
    }

    package static func waiting(_ db: Database) throws -> [SpaceRename] {
        guard let bytes = try Meta(db).bytes(.renames) else { return [] }
        guard let renames = try? JSONDecoder().decode([SpaceRename].self, from: Data(bytes)) else {
            throw Corruption(Meta.Name.renames)
        }
        return renames
    }

    /// Removes renames that are now in the outbox or in the space.
    package static func remove(_ renames: [SpaceRename], _ db: Database) throws {
        guard !renames.isEmpty else { return }
        try save(waiting(db).filter { !renames.contains($0) }, db)
    }

    private static func save(_ renames: [SpaceRename], _ db: Database) throws {
        try Meta(db).set(.renames, renames.isEmpty ? nil : try JSONEncoder().encode(renames))
    }
}
