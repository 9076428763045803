public import AnnalsCore
package import AnnalsWire
import Foundation
import GRDB

/// A joined store's place in its space.
public struct ReplicaState: Sendable {
    public var replica: ReplicaID
    /// What history, blame and the relay show.
    public var name: String
    public var relay: String
    public var space: SpaceName
    public var lineage: Lineage
    /// The log is applied up to here.
    public var position: Position
    /// The log's running digest there; nil where it is not known.
    package var logDigest: Digest?
    /// The last head the relay told.
    public var head: Position
    package var lastCounter: Counter
    package var lastDigest: Digest
    /// The file that holds the bearer token, as given at join.
    package var credentialFile: String?
    /// Whom to trust at the relay's address.
    package var trust = RelayTrust()
    /// The file that holds the space's keys, as given at join.
    package var spaceKeyFile: String?
    /// The id of the key under which the space was seen sealed last; nil where the space is not sealed.
    package var sealedUnder: UInt64?

    /// What this replica has seen of the log.
    package var seen: LogMark { LogMark(lineage: lineage, position: position, digest: logDigest, replica: replica) }

    /// The position passes an entry.
    mutating func pass(_ digest: Digest?) {
        position = position.next
        logDigest = digest.flatMap { logDigest?.following($0) }
    }

    /// Becomes a replica of its own, whose counters begin at 1.
    mutating func take(newIdentity: ReplicaID) {
        replica = newIdentity
        lastCounter = .zero
        lastDigest = .zero
    }

    /// What `load` reads: each step of an exchange begins with it, so it is one statement.
    private static let loaded: [Meta.Name] = [
        .replica, .space, .lineage, .lastDigest, .replicaName, .relay, .position, .logDigest, .head, .lastCounter, .credentialFile,
        .caFile, .pins, .spaceKeyFile, .sealedUnder,
    ]

    /// nil when the store is not joined.
    static func load(_ db: Database) throws -> ReplicaState? {
        let facts = try Meta(db).facts(of: loaded)
        guard let replica = facts.text(.replica) else { return nil }
        guard let id = ReplicaID(replica), let space = facts.text(.space).flatMap(SpaceName.init),
            let lineage = facts.text(.lineage).flatMap({ Lineage($0) }),
            let digest = facts.bytes(.lastDigest).flatMap({ Digest(bytes: $0) })
        else { throw StoreDamage("annals_meta") }
        return try ReplicaState(
            replica: id, name: facts.text(.replicaName) ?? "", relay: facts.text(.relay) ?? "", space: space, lineage: lineage,
            position: Position(facts.number(.position)), logDigest: facts.bytes(.logDigest).flatMap { Digest(bytes: $0) },
            head: Position(facts.number(.head)), lastCounter: Counter(facts.number(.lastCounter)), lastDigest: digest,
            credentialFile: facts.text(.credentialFile), trust: RelayTrust(facts), spaceKeyFile: facts.text(.spaceKeyFile),
            sealedUnder: facts.text(.sealedUnder).flatMap { UInt64($0, radix: 16) })
    }

    func save(_ db: Database) throws {
        let meta = Meta(db)
        try meta.set(.replica, replica.description)
        try meta.set(.replicaName, name)
        try meta.set(.relay, relay)
        try meta.set(.space, space.description)
        try meta.set(.lineage, lineage.description)
        try meta.set(.credentialFile, credentialFile)
        try trust.save(meta)
        try meta.set(.spaceKeyFile, spaceKeyFile)
        try saveProgress(db)
    }

    /// Writes only what an exchange moves.
    func saveProgress(_ db: Database) throws {
        let meta = Meta(db)
        try meta.set(.position, position.rawValue)
        try meta.set(.logDigest, logDigest.map { Data($0.bytes) })
        try meta.set(.head, head.rawValue)
        try meta.set(.lastCounter, lastCounter.rawValue)
        try meta.set(.lastDigest, Data(lastDigest.bytes))
        try meta.set(.sealedUnder, sealedUnder.map { SpaceKey.name(of: $0) })
    }
}
