import AnnalsSQLite
import Foundation
package import GRDB

/// Which column list follows upon one, and what became of its columns; a fact in `annals_meta`.
///
/// Names alone do not say it: a column can be renamed, dropped, and another have its name or its place later.
package struct ListContinuation: Hashable, Codable, Sendable {
    /// The list that continues this one.
    package var list: Int64
    /// Per column its place there; nil for one that was dropped.
    package var places: [Int?]

    package init(list: Int64, places: [Int?]) {
        self.list = list
        self.places = places
    }

    private static let prefix = "continued:"

    /// By the ids of the lists that are continued. Stores that were made by an Annals of before have none.
    package static func load(_ db: Database) throws -> [Int64: ListContinuation] {
        var found: [Int64: ListContinuation] = [:]
        for row in try MetaTable(db).rows(from: prefix, to: "continued;") {
            let name: String = try row.value("name")
            guard let id = Int64(name.dropFirst(prefix.count)) else { throw Corruption("annals_meta.continued") }
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
