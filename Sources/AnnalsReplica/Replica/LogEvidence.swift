package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import Foundation
package import GRDB

/// Two signed statements that contradict each other: what an author has seen of the log, and what this replica has.
///
/// One relay showed both logs, so the relay showed different logs. The author's half is the clear part of a batch with its signature.
/// Everyone who has the file can check it (`Documentation/threats.md`).
package struct LogEvidence: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Sendable {
        /// The author has seen another log up to a position than this replica has.
        case otherLog = "other-log"
        /// The author's entry before this one is not in the log that the relay shows to this replica.
        case missingEntry = "missing-entry"
    }

    /// A signed statement and its author.
    package struct Statement: Codable, Hashable, Sendable {
        package var replica: String
        package var publicKey: Data
        /// The signed bytes: see `Documentation/format.md`, Signatures.
        package var message: Data
        package var signature: Data
        /// The position of the statement, and the running digest of the log there according to its author.
        package var position: Int64
        package var digest: String

        /// Whether the signature is correct.
        package var isSigned: Bool {
            ReplicaKey.replica(of: [UInt8](publicKey)).description == replica
                && ReplicaKey.isSigned([UInt8](message), by: [UInt8](publicKey), signature: [UInt8](signature)[...])
        }
    }

    package var kind: Kind
    package var space: String
    package var lineage: String
    /// The position of the entry in the log that the relay shows to this replica.
    package var position: Int64
    /// The author's statement.
    package var author: Statement
    /// The clear part of the author's batch. The author's message is its digest.
    package var clearPart: Data
    /// This replica's statement.
    package var here: Statement

    /// The evidence as a sentence.
    package var message: String {
        switch kind {
        case .otherLog:
            "the relay shows replicas different logs: \(author.replica), the author of the entry at position \(position), "
                + "signed another log up to position \(author.position) than this replica has"
        case .missingEntry:
            "the relay left an entry out of the log: the entry at position \(position), by \(author.replica), "
                + "does not follow the newest entry of that replica that this replica has seen"
        }
    }

    package var error: AnnalsError {
        let state = "Nothing was applied, and this replica stops syncing with this relay; local work can continue."
        return AnnalsError(
            .relayInconsistent, operation: "sync", message,
            hint: "\(state) The store keeps the proof. Tell the other members of the space",
            commandHint: "\(state) Run annals verify --evidence FILE to save the proof, and show it to the other members of the space")
    }

    /// The evidence that stopped all exchanges; nil if there is none.
    package static func load(_ db: Database) throws -> LogEvidence? {
        guard let bytes = try Meta(db).bytes(.evidence) else { return nil }
        do {
            return try JSONDecoder().decode(LogEvidence.self, from: Data(bytes))
        } catch {
            throw Corruption(Meta.Name.evidence)
        }
    }

    package func save(_ db: Database) throws {
        try Meta(db).set(.evidence, try JSONEncoder().encode(self))
    }
}

/// Thrown inside the transaction that applies a page. It is stored after that transaction is rolled back.
package struct ContradictingLog: TranslatableError {
    package var evidence: LogEvidence

    package func annalsError(operation: String, path: String) -> AnnalsError {
        var error = evidence.error
        error.underlying = self
        return error
    }
}

extension ReplicaState {
    /// Combines the statement in an author's batch with a statement of this replica.
    ///
    /// - Parameter known: What this replica states: a running digest of the log, or the digest of the author's newest entry.
    package func evidence(
        _ kind: LogEvidence.Kind, of header: BatchHeader, in batch: [UInt8], at position: Position, about: Position, known: Digest
    ) throws -> LogEvidence {
        let key = try key()
        var own = ByteWriter()
        own.bytes(Array("annals \(kind.rawValue)".utf8))
        own.identifier(lineage)
        own.position(about)
        own.digest(known)
        let clear = batch[header.clear]
        return LogEvidence(
            kind: kind, space: space.description, lineage: lineage.description, position: position.rawValue,
            author: LogEvidence.Statement(
                replica: header.replica.description, publicKey: Data(header.publicKey),
                message: Data(BatchSignature.message(clear: clear)), signature: Data(batch[header.signature]),
                position: header.seen.position.rawValue, digest: (header.seen.digest ?? .zero).description),
            clearPart: Data(clear),
            here: LogEvidence.Statement(
                replica: replica.description, publicKey: Data(key.publicBytes), message: Data(own.bytes),
                signature: Data(try key.sign(own.bytes)), position: about.rawValue, digest: known.description))
    }
}
