public import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import Foundation
package import GRDB

/// The state of a joined store in its space.
public struct ReplicaState: Sendable {
    public var replica: ReplicaID
    /// The secret key that it signs with: see `key()`.
    package var secret: [UInt8]
    /// The name in history, in blame and at the relay.
    public var name: String
    public var relay: String
    public var space: SpaceName
    public var lineage: Lineage
    /// The position up to which the log is applied.
    public var position: Position
    /// The log's running digest at the position; nil if it is not known.
    package var logDigest: Digest?
    /// The newest position of the log, according to the relay's last answer.
    public var head: Position
    package var lastCounter: Counter
    package var lastDigest: Digest
    /// The file with the bearer token, as given to the join.
    package var credentialFile: String?
    /// The certificates and keys to trust at the relay's address.
    package var trust = RelayTrust()
    /// The file with the space's keys, as given to the join.
    package var spaceKeyFile: String?
    /// The id of the key that the space was last seen to be sealed with; nil if the space is not encrypted.
    package var sealedUnder: UInt64?
    /// The relay was found to show different logs to different replicas; see `LogEvidence`.
    package var hasEvidence = false
    /// The positions that were passed since the state was loaded, with the log's running digests.
    package var passed: [(Position, Digest)] = []

    package init(
        replica: ReplicaID, secret: [UInt8], name: String, relay: String, space: SpaceName, lineage: Lineage, position: Position,
        logDigest: Digest? = nil, head: Position, lastCounter: Counter, lastDigest: Digest, credentialFile: String? = nil,
        trust: RelayTrust = RelayTrust(), spaceKeyFile: String? = nil, sealedUnder: UInt64? = nil, hasEvidence: Bool = false,
        passed: [(Position, Digest)] = []
    ) {
        self.replica = replica
        self.secret = secret
        self.name = name
        self.relay = relay
        self.space = space
        self.lineage = lineage
        self.position = position
        self.logDigest = logDigest
        self.head = head
        self.lastCounter = lastCounter
        self.lastDigest = lastDigest
        self.credentialFile = credentialFile
        self.trust = trust
        self.spaceKeyFile = spaceKeyFile
        self.sealedUnder = sealedUnder
        self.hasEvidence = hasEvidence
        self.passed = passed
    }

    /// The part of the log that this replica has seen.
    package var seen: LogMark { LogMark(lineage: lineage, position: position, digest: logDigest, replica: replica) }

    /// The same, in the form that its batches carry.
    var seenLog: SeenLog { SeenLog(position: position, digest: logDigest) }

    /// Moves the position past an entry.
    package mutating func pass(_ digest: Digest?) {
        position = position.next
        logDigest = digest.flatMap { logDigest?.following($0) }
        if let logDigest { passed.append((position, logDigest)) }
    }

    /// The log's running digest at a position; nil if it is not known.
    package func logDigest(at wanted: Position, _ db: Database) throws -> Digest? {
        if wanted == position { return logDigest }
        if wanted == .zero { return .zero }
        if let (first, _) = passed.first, wanted >= first {
            let index = Int(wanted.rawValue - first.rawValue)
            return passed.indices.contains(index) && passed[index].0 == wanted ? passed[index].1 : nil
        }
        return try LogDigests.at(wanted, db)
    }

    /// The key pair that it signs with.
    ///
    /// - Throws: `Corruption` if the file holds no key or the key of another replica.
    package func key() throws -> ReplicaKey {
        guard let key = ReplicaKey(bytes: secret), key.replica == replica else { throw Corruption(Meta.Name.replicaKey) }
        return key
    }

    /// Makes this a new replica with counters that begin at 1.
    package mutating func take(newIdentity key: ReplicaKey) {
        replica = key.replica
        secret = key.bytes
        lastCounter = .zero
        lastDigest = .zero
    }

    /// The values that `load` reads. Each step of an exchange loads them, so one statement reads them all.
    private static let loaded: [Meta.Name] = [
        .replica, .replicaKey, .space, .lineage, .lastDigest, .replicaName, .relay, .position, .logDigest, .head, .lastCounter,
        .credentialFile,
        .caFile, .pins, .spaceKeyFile, .sealedUnder,
        .evidence,
    ]

    /// nil when the store is not joined.
    package static func load(_ db: Database) throws -> ReplicaState? {
        let facts = try Meta(db).facts(of: loaded)
        guard let replica = facts.text(.replica) else { return nil }
        guard let id = ReplicaID(replica), let space = facts.text(.space).flatMap(SpaceName.init),
            let lineage = facts.text(.lineage).flatMap({ Lineage($0) }),
            let digest = facts.bytes(.lastDigest).flatMap({ Digest(bytes: $0) }), let secret = facts.bytes(.replicaKey)
        else { throw Corruption(OwnTables.meta) }
        return try ReplicaState(
            replica: id, secret: secret, name: facts.text(.replicaName) ?? "", relay: facts.text(.relay) ?? "", space: space,
            lineage: lineage,
            position: Position(facts.number(.position)), logDigest: facts.bytes(.logDigest).flatMap { Digest(bytes: $0) },
            head: Position(facts.number(.head)), lastCounter: Counter(facts.number(.lastCounter)), lastDigest: digest,
            credentialFile: facts.text(.credentialFile), trust: RelayTrust(facts), spaceKeyFile: facts.text(.spaceKeyFile),
            sealedUnder: facts.text(.sealedUnder).flatMap { UInt64($0, radix: 16) }, hasEvidence: facts.bytes(.evidence) != nil)
    }

    package func save(_ db: Database) throws {
        let meta = Meta(db)
        try meta.set(.replica, replica.description)
        try meta.set(.replicaKey, Data(secret))
        try meta.set(.replicaName, name)
        try meta.set(.relay, relay)
        try meta.set(.space, space.description)
        try meta.set(.lineage, lineage.description)
        try meta.set(.credentialFile, credentialFile)
        try trust.save(meta)
        try meta.set(.spaceKeyFile, spaceKeyFile)
        try saveProgress(db)
    }

    /// Saves only the values that change in an exchange.
    func saveProgress(_ db: Database) throws {
        let meta = Meta(db)
        try meta.set(.position, position.rawValue)
        try meta.set(.logDigest, logDigest.map { Data($0.bytes) })
        try meta.set(.head, head.rawValue)
        try meta.set(.lastCounter, lastCounter.rawValue)
        try meta.set(.lastDigest, Data(lastDigest.bytes))
        try meta.set(.sealedUnder, sealedUnder.map { SpaceKey.name(of: $0) })
        try LogDigests.note(db, passed)
    }
}
