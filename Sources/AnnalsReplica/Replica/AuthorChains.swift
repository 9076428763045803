package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// The newest entry of each author in the log, up to a replica's position.
///
/// Each transaction has its author's counter and the digest of the author's transaction before it. A receiver compares both with the
/// newest entry that it has. So a relay cannot omit an entry, show it twice or change the order of an author's entries.
package struct AuthorChains {
    /// `counter` is 0 if the newest entry is not known. Then the author's next entry is accepted without this check.
    package static let schema = """
        CREATE TABLE annals_authors (
            replica BLOB PRIMARY KEY,
            counter INTEGER NOT NULL,
            digest BLOB NOT NULL
        ) WITHOUT ROWID;
        """

    /// The newest entry of an author.
    package struct Link: Hashable, Sendable {
        package var counter: Counter
        package var digest: Digest

        package init(counter: Counter, digest: Digest) {
            self.counter = counter
            self.digest = digest
        }

        /// The log has no entry of the author yet.
        package static let first = Link(counter: .zero, digest: .zero)
    }

    private let db: Database
    private var links: [ReplicaID: Link?] = [:]

    package init(_ db: Database) {
        self.db = db
    }

    /// Whether an entry is the next one of its author. Records it as the newest one.
    package mutating func follow(_ header: BatchHeader, _ index: Int) throws -> Bool {
        let last = try newest(of: header.replica)
        let next = Link(counter: header.counter(of: index), digest: header.certificates[index].digest)
        links[header.replica] = next
        guard let last else { return true }
        guard next.counter == last.counter.next else { return false }
        // A replica that clones a space from its first snapshot does not know the digest of the space's first entry.
        let isKnown = last.digest != .zero || last.counter == .zero
        return !isKnown || header.previousDigest(of: index) == last.digest
    }

    /// Records an entry that was checked when it arrived.
    package mutating func passed(_ header: BatchHeader) {
        guard let last = header.certificates.last else { return }
        links[header.replica] = Link(counter: header.lastCounter, digest: last.digest)
    }

    /// nil if the newest entry is not known.
    package mutating func newest(of replica: ReplicaID) throws -> Link? {
        if let known = links[replica] { return known }
        let link = try Self.load(db, replica)
        links[replica] = .some(link)
        return link
    }

    /// The position of the snapshot that is the only source for the author's newest entry; nil if a batch confirmed it.
    package func unconfirmedSnapshot(of author: ReplicaID) throws -> Position? {
        guard let authors = try UnconfirmedAuthors.load(db), try authors.holds(author, db) else { return nil }
        return authors.snapshot
    }

    private static func load(_ db: Database, _ replica: ReplicaID) throws -> Link? {
        let statement = try db.cachedStatement(sql: "SELECT counter, digest FROM annals_authors WHERE replica = ?")
        guard let row = try GRDB.Row.fetchOne(statement, arguments: [Data(replica.bytes)]) else { return .first }
        return try link(row)
    }

    private static func link(_ row: GRDB.Row) throws -> Link? {
        let (counter, bytes): (Int64, Data) = try (row.number("counter", in: SchemaLimits.positions), row.value("digest"))
        guard let digest = Digest(bytes: [UInt8](bytes)) else { throw Corruption("annals_authors.digest") }
        return counter == 0 ? nil : Link(counter: Counter(counter), digest: digest)
    }

    // MARK: The table

    /// Every author's newest entry; nil if it is not known.
    package static func all(_ db: Database, table: String = "annals_authors") throws -> [ReplicaID: Link?] {
        var all: [ReplicaID: Link?] = [:]
        for row in try GRDB.Row.fetchAll(db, sql: "SELECT replica, counter, digest FROM \(table)") {
            let bytes: Data = try row.value("replica")
            guard let replica = ReplicaID(bytes: bytes) else { throw Corruption("annals_authors.replica") }
            all[replica] = .some(try link(row))
        }
        return all
    }

    /// Whether an author has a row here.
    static func knows(_ author: ReplicaID, _ db: Database) throws -> Bool {
        let statement = try db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM annals_authors WHERE replica = ?)")
        return try Bool.fetchOne(statement, arguments: [Data(author.bytes)]) ?? false
    }

    package static func save(_ db: Database, _ link: Link?, of replica: ReplicaID) throws {
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO annals_authors (replica, counter, digest) VALUES (?, ?, ?)").execute(
            arguments: [Data(replica.bytes), (link?.counter ?? .zero).rawValue, Data((link?.digest ?? .zero).bytes)])
    }

    /// Makes an older entry the author's newest one.
    static func goBack(_ db: Database, to link: Link, of replica: ReplicaID) throws {
        guard link == .first else { return try save(db, link, of: replica) }
        try db.execute(sql: "DELETE FROM annals_authors WHERE replica = ?", arguments: [Data(replica.bytes)])
    }

    /// Replaces all authors' newest entries.
    package static func replaceAll(_ db: Database, with links: [ReplicaID: Link?]) throws {
        try db.execute(sql: "DELETE FROM annals_authors")
        for (replica, link) in links.sorted(by: { $0.key < $1.key }) { try save(db, link, of: replica) }
    }
}
