/// Limits of the outbox and of pushes.
package struct OutboxLimits: Sendable, Hashable {
    /// Bytes of the uncompressed bodies in one push.
    package var pushBytes = 2 << 20
    package var pushTransactions = 4_096
    /// Uncompressed bytes after which a transaction continues in another part. This limits the memory that one transaction takes.
    package var partBytes = 4 << 20
    /// Uncompressed bytes of a piece. A larger body is cut into pieces of this size. This limits the size of a large value in a part.
    package var pieceBytes = 8 << 20
    /// Bytes of a conflict in the journal, which is one row in every replica. A larger one loses its base value. If it is still larger,
    /// it is refused.
    package var journalEntryBytes = 960_000_000
    /// Bytes of the stored newest batches of the log: an eighth of the file, within this range. See `RecentLog`.
    package var recentLog: ClosedRange<Int64> = 1 << 20...64 << 20

    package init() {}
}
