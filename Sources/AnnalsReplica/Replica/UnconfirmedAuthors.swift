package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// The authors with a newest entry that is known only from the snapshot that this replica began with. No batch of theirs was received
/// since.
///
/// A member of the space made the snapshot. If the log contradicts it about such an author, this is no proof against the relay. An
/// author that the snapshot does not name, and that sent no batch since, counts as unconfirmed too.
package struct UnconfirmedAuthors {
    /// The position of the snapshot. A space's first snapshot is made before other replicas can write, so it does not count.
    package var snapshot: Position
    private var replicas: Set<ReplicaID>

    /// nil if the entries of all authors were received from the first one on.
    package static func load(_ db: Database) throws -> UnconfirmedAuthors? {
        guard let snapshot = try Meta(db).integer(.unconfirmedSnapshot) else { return nil }
        guard SchemaLimits.positions.contains(snapshot) else { throw Corruption(Meta.Name.unconfirmedSnapshot) }
        return UnconfirmedAuthors(snapshot: Position(snapshot), replicas: try replicas(db))
    }

    private static func replicas(_ db: Database) throws -> Set<ReplicaID> {
        guard let bytes = try Meta(db).bytes(.unconfirmedAuthors) else { return [] }
        let replicas = stride(from: 0, to: bytes.count, by: idBytes).compactMap { ReplicaID(bytes: bytes[$0...].prefix(idBytes)) }
        guard replicas.count * idBytes == bytes.count else { throw Corruption(Meta.Name.unconfirmedAuthors) }
        return Set(replicas)
    }

    /// Whether the author's newest entry is known only from the snapshot.
    package func holds(_ author: ReplicaID, _ db: Database) throws -> Bool {
        guard !replicas.contains(author) else { return true }
        return try !AuthorChains.knows(author, db)
    }

    /// To be called when a replica begins with a snapshot. All its authors are unconfirmed.
    package static func begin(at snapshot: Position, _ db: Database) throws {
        guard snapshot > Position.first else { return try forget(db) }
        try Meta(db).set(.unconfirmedSnapshot, snapshot.rawValue)
        try set(Set(AuthorChains.all(db).keys), db)
    }

    /// To be called with authors of received batches.
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

/// The log contradicts the snapshot that this replica began with, but no batch that it received.
///
/// It is thrown inside the transaction that applies a page. An older snapshot, with the log after it, shows which of the two is wrong.
package struct SuspectSnapshot: TranslatableError {
    package var snapshot: Position
    package var author: ReplicaID
    /// The position of the author's entry.
    package var position: Position

    package func annalsError(operation: String, path: String) -> AnnalsError {
        AnnalsError(
            .corruptBatch, operation: operation,
            "the entry at position \(position), by \(author), does not follow the newest entry of that replica in the snapshot "
                + "at position \(snapshot), with which this replica began: the snapshot is wrong, or the relay left an entry out",
            hint: "Nothing was applied, and local work can continue. Ask the relay's operator, who can see who made the snapshot",
            commandHint: "Nothing was applied, and local work can continue. Run annals verify --space on the store of another member to "
                + "compare; the relay's operator can see who made the snapshot", underlying: self)
    }
}
