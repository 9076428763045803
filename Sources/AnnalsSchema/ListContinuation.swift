import AnnalsSQLite
import Foundation
package import GRDB

/// Which column list continues another one, and the new index of each column. It is stored in `annals_meta`.
///
/// Names are not enough: a column can be renamed or dropped, and another column can get its name or its index later.
package struct ListContinuation: Hashable, Codable, Sendable {
    /// The list that continues this one.
    package var list: Int64
    /// For each column its index in the next list; nil if it was dropped.
    package var columnIndexes: [Int?]
    /// The newest transaction before the next list was made; nil if an older version of Annals made it.
    package var after: Int64?

    package init(list: Int64, columnIndexes: [Int?], after: Int64? = nil) {
        self.list = list
        self.columnIndexes = columnIndexes
        self.after = after
    }

    private static let prefix = "continued:"

    /// Continuations by the id of the continued list. Stores from older versions of Annals have none.
    package static func load(_ db: Database) throws -> [Int64: ListContinuation] {
        var found: [Int64: ListContinuation] = [:]
        for row in try MetaTable(db).rows(from: prefix, to: "continued;") {
            let name: String = try row.value("name")
            guard let id = Int64(name.dropFirst(prefix.count)) else { throw Corruption("\(OwnTables.meta).continued") }
            found[id] = try row.json("value")
        }
        return found
    }

    package func save(of id: Int64, _ db: Database) throws {
        let value = String(decoding: try JSONEncoder().encode(self), as: UTF8.self)
        try MetaTable(db).set("\(Self.prefix)\(id)", value)
    }

    package static func forget(_ id: Int64, _ db: Database) throws {
        try MetaTable(db).remove("\(prefix)\(id)")
    }
}
