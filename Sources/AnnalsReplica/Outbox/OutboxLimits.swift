/// Named bounds of the outbox and of pushes.
package struct OutboxLimits: Sendable, Hashable {
    /// Plain bytes of bodies in one push.
    package var pushBytes = 2 << 20
    package var pushTransactions = 4_096
    /// Plain bytes after which a transaction is continued in another part: what one transaction takes of memory at a time.
    package var partBytes = 4 << 20
    /// Plain bytes beyond which a body is cut into pieces of so many: what one large value takes of a part.
    package var pieceBytes = 8 << 20
    /// Bytes of a conflict in the journal, beyond which it lacks what both sides had found, or is refused: it is one row in every replica.
    package var journalEntryBytes = 960_000_000
    /// Bytes of the log's newest batches that are kept: an eighth of the file, within these bounds. See `RecentLog`.
    package var recentLog: ClosedRange<Int64> = 1 << 20...64 << 20

    package init() {}
}
