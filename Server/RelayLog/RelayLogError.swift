package import AnnalsCore

/// Why a request to the log failed. The definite answers to a push are no errors: see `PushAnswer.Outcome`.
package enum RelayLogError: Error, Sendable {
    case spaceNotFound
    case spaceExists
    /// The pushing replica belongs to another owner.
    case replicaOwnedElsewhere(ReplicaID)
    /// The operator quarantined this owner: it can read the space and not write to it.
    case quarantined(String, SpaceName)
    /// The push holds an entry of the relay or a voided entry, which only an operator can add.
    case notForReplicas
    /// The signature of the batch is not by the replica that it names.
    case badSignature
    /// The log after the requested position is purged; `horizon` is the oldest position to pull from.
    case expired(horizon: Position)
    /// What the caller has seen of the log contradicts it: the lineage or the digest differs, or the log is shorter.
    case logRolledBack(head: Position)
    /// The requested position is beyond the head, and the caller does not say that it has seen the log up to there.
    case beyondHead(Position)
    /// Too many requests are waiting.
    case overloaded(retryAfterSeconds: Int)
    /// A resource of the relay, or a share of it for this token, space or address, is used up.
    case quota(Quota, QuotaBound, retryAfterSeconds: Int)
    /// The token has reached its limit of spaces.
    case tooManySpacesOfToken(limit: Int)
    /// The token has reached its limit of replicas in the space.
    case tooManyReplicas(limit: Int)
    /// The relay is stopping.
    case closing
    case noSnapshot
    /// A snapshot of a later position exists.
    case snapshotSuperseded(by: Position)
    /// The digest of the snapshot's bytes is not the stated one.
    case snapshotDigestMismatch
    /// The bytes are not a valid snapshot, encrypted or not; the text says why.
    case badSnapshot(String)
    case snapshotTooLarge(limit: Int64)
    /// The offset of a snapshot's part is wrong; `offset` is the number of bytes that the relay has.
    case snapshotPartElsewhere(offset: Int64)
    /// A transaction in parts exceeds the limit for buffered parts.
    case transactionTooLarge(limit: Int64)
    case diskFull
    /// The relay keeps this many bytes of the disk free.
    case diskReserved(bytes: Int64)
    /// The relay has reached its limit of spaces.
    case tooManySpaces(limit: Int)
    /// The space has reached its limit of bytes.
    case spaceFull(limit: Int64)
    /// The database server does not answer. The text says why, without the server's address.
    case databaseAway(String)
    /// Another failure of the storage; the operator's log has the reason.
    case storage(String)
}
