package import AnnalsCore

/// Why the log did not do what was asked. Definite answers to a push are not errors: see `PushResult`.
package enum RelayLogError: Error, Sendable {
    case spaceNotFound
    case spaceExists
    /// The replica that a push is of belongs to another token.
    case replicaOwnedElsewhere(ReplicaID)
    /// The operator lets this owner read the space and not write to it.
    case quarantined(String, SpaceName)
    /// A push of what only the operator puts into a log.
    case notForReplicas
    /// The replica that the batch names did not sign it.
    case badSignature
    /// The log after the asked position is gone; the oldest position that one can ask from.
    case expired(horizon: Position)
    /// The asked position lies beyond the head, or the lineage is another: one of the two saw a log that this is not.
    case wentBack(head: Position)
    /// Too much is waiting already.
    case overloaded(retryAfterSeconds: Int)
    /// The relay has no more of this, or has none left for this token, space or address.
    case quota(Quota, QuotaBound, retryAfterSeconds: Int)
    /// The token has made as many spaces as it may.
    case tooManySpacesOfToken(limit: Int)
    /// The token has as many replicas in the space as it may.
    case tooManyReplicas(limit: Int)
    /// The relay is stopping.
    case closing
    case noSnapshot
    /// A snapshot of a later position is there already.
    case snapshotSuperseded(by: Position)
    /// The snapshot's bytes are not those that its digest names.
    case snapshotDigestMismatch
    /// The bytes are not a snapshot's, sealed or not: what is wrong with them.
    case badSnapshot(String)
    case snapshotTooLarge(limit: Int64)
    /// A part of a snapshot that does not follow upon what is here, which has so many bytes.
    case snapshotPartElsewhere(offset: Int64)
    /// A transaction in parts that is larger than what may wait for its last part.
    case transactionTooLarge(limit: Int64)
    case diskFull
    /// So much of the disk is left free.
    case diskReserved(bytes: Int64)
    /// The relay has as many spaces as it may have.
    case tooManySpaces(limit: Int)
    /// The space has as many bytes as it may have.
    case spaceFull(limit: Int64)
    /// The storage failed in another way; the operator's log has the reason.
    case storage(String)
}
