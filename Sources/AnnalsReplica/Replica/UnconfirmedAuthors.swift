package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The authors whose newest entries a replica knows from the snapshot alone that it began with: it has seen no batch of theirs since.
///
/// A member of the space made the snapshot. Where the log contradicts what it says of such an author, that is no proof against the relay.
/// An author that the snapshot does not name, and who has no batch since, counts as one of them.
package struct UnconfirmedAuthors {
    /// Of the snapshot. The first one of a space is made before anybody else could write, so nothing rests on it.
    package var snapshot: Position
    private var replicas: Set<ReplicaID>

    /// nil where every author's entries were seen from the first.
    package static func load(_ db: Database) throws -> UnconfirmedAuthors? {
        guard let snapshot = try Meta(db).integer(.unconfirmedSnapshot) else { return nil }
        guard SchemaLimits.positions.contains(snapshot) else { throw Corruption("annals_meta.told_by_snapshot") }
        return UnconfirmedAuthors(snapshot: Position(snapshot), replicas: try replicas(db))
    }

    private static func replicas(_ db: Database) throws -> Set<ReplicaID> {
        guard let bytes = try Meta(db).bytes(.unconfirmedAuthors) else { return [] }
        let replicas = stride(from: 0, to: bytes.count, by: idBytes).compactMap { ReplicaID(bytes: bytes[$0...].prefix(idBytes)) }
        guard replicas.count * idBytes == bytes.count else { throw Corruption("annals_meta.told_authors") }
        return Set(replicas)
    }

    /// Whether nothing but the snapshot says what the author's newest entry is.
    package func holds(_ author: ReplicaID, _ db: Database) throws -> Bool {
        guard !replicas.contains(author) else { return true }
        return try !AuthorChains.knows(author, db)
    }

    /// All that is known of authors is from a snapshot at that position.
    package static func begin(at snapshot: Position, _ db: Database) throws {
        guard snapshot > Position.first else { return try forget(db) }
        try Meta(db).set(.unconfirmedSnapshot, snapshot.rawValue)
        try set(Set(AuthorChains.all(db).keys), db)
    }

    /// Batches of these were seen.
    package static func remove(_ authors: some Sequence<ReplicaID>, _ db: Database) throws {
        let all = try replicas(db)
        guard !all.isEmpty else { return }
        try set(all.subtracting(authors), db)
    }

    package static func copy(from other: Database, to db: Database) throws {
        try Meta(db).set(.unconfirmedSnapshot, try Meta(other).integer(.unconfirmedSnapshot))
        try Meta(db).set(.unconfirmedAuthors, try Meta(other).bytes(.unconfirmedAuthors).map { Data($0) })
    }

    private static func forget(_ db: Database) throws {
        for name in [Meta.Name.unconfirmedSnapshot, .unconfirmedAuthors] { try Meta(db).set(name, nil) }
    }

    private static func set(_ replicas: Set<ReplicaID>, _ db: Database) throws {
        let bytes = replicas.sorted().flatMap(\.bytes)
        try Meta(db).set(.unconfirmedAuthors, bytes.isEmpty ? nil : Data(bytes))
    }

    private static let idBytes = 16
}

/// The log contradicts what the snapshot says that this replica began with, and no batch that it has seen.
///
/// It is thrown from within the transaction that applies a page. An older snapshot, and the log after it, show which of the two is wrong.
package struct SuspectSnapshot: TranslatableError {
    package var snapshot: Position
    package var author: ReplicaID
    /// Of the author's entry.
    package var position: Position

    package func annalsError(operation: String, path: String) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: operation,
            "the entry at position \(position) is by \(author), and it does not follow upon the newest entry of that replica in the snapshot "
                + "at position \(snapshot), with which this replica began: the snapshot is wrong, or the relay left an entry out",
            hint: "Nothing was applied, and local work goes on. Compare with the store of another member by annals verify --space there; "
                + "the relay's operator sees who made the snapshot", underlying: self)
    }
}
