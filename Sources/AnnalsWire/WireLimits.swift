package import AnnalsCore

/// The limits of everything that is sent. Both sides enforce them, so neither can make the other use more memory.
package enum WireLimits {
    /// The unpacked payload of a batch, in bytes. A larger transaction is sent in parts.
    package static let maximumPlainBytes = 64 << 20
    /// The parts of one transaction.
    package static let maximumParts = 65_536
    /// A body that is joined from pieces, in bytes. A change has at most two values, of at most 1 GB each.
    package static let maximumBodyBytes = 4 << 30
    /// An encoded batch, in bytes: an incompressible payload and its certificates.
    package static let maximumBatchBytes = 80 << 20
    /// The transactions in one batch.
    package static let maximumTransactions = 65_536
    /// The policies, references or resolutions that one transaction sets, or the entries that one entry voids.
    package static let maximumDecisions = 65_536
    /// The columns of one reference that the schema does not declare.
    package static let maximumReferenceColumns = 16
    /// The journal entries in one body. An author ends a part much earlier, because each entry takes at least about ten
    /// bytes.
    package static let maximumJournalEntries = 1 << 19
    /// The runs of changes of one age in one body.
    package static let maximumAgeRuns = 1 << 20
    /// The tables that one body refers to, that a batch has layouts of, or that a schema entry tracks.
    package static let maximumTables = 65_536
    /// The statements of one schema entry: tables, indexes, triggers and views.
    package static let maximumStatements = 65_536
    /// The sections of a body that have no change. Repeated bytes pack so well that a small batch could contain
    /// millions of them.
    package static let maximumEmptySections = 1_024
    /// The size of batches in bytes at which a relay ends a page. A page has at least one frame.
    package static let pageTargetBytes = 1 << 20
    /// The largest value that a reader may pass as `limit`, in bytes.
    package static let maximumPageTargetBytes = 16 << 20
    /// An encoded page, in bytes: its target, and a last frame that exceeds it.
    package static let maximumPageBytes = maximumPageTargetBytes + maximumBatchBytes + (1 << 20)
    /// The frames in one page.
    package static let maximumFrames = 65_536
    /// The size of the log in the answer to a push, in bytes.
    package static let inlinePageBytes = 1 << 20
    /// The size of one part of a snapshot upload, in bytes. After a broken connection at most one part is sent again.
    package static let snapshotPartBytes = 4 << 20
    /// The largest part of a snapshot that a relay accepts.
    package static let maximumSnapshotPartBytes = 16 << 20
    /// How many unpacked bytes a snapshot may have for each packed byte, above `snapshotBytesOfAnyRatio`. Measured at
    /// level 3 with pages of 4 KiB: rows with UUIDs 2, integers alone 32, 50,000 equal texts of 3,900 bytes 430, a blob
    /// of 200 MB of zeros 1,170, a file of 100 MB after a delete of all rows 1,870.
    package static let snapshotRatio: Int64 = 2_500
    /// The unpacked size in bytes up to which the ratio is not checked. A small file can have a higher ratio and does
    /// no harm.
    package static let snapshotBytesOfAnyRatio: Int64 = 64 << 20
    /// The columns of one table. SQLite cannot be built for more.
    package static let maximumColumns = 32_767
    /// The longest time that a pull waits at the relay, in seconds.
    package static let maximumWaitSeconds = 60
    /// The longest time that an answer asks an author to wait for the push lease, in milliseconds.
    package static let maximumLeaseWaitMilliseconds = 300_000
    /// The largest position and counter. The addition of a count cannot overflow.
    package static let maximumPosition: Int64 = 1 << 62
    /// The largest distance of a time from 1970, in milliseconds. The addition of a lead cannot overflow.
    package static let maximumMilliseconds: Int64 = 1 << 62
    /// The memory for the window while unpacking, as a power of two. RFC 8878 recommends 8 MiB.
    package static let maximumWindowLog = 23
}

/// The limits of one reader of batches. A relay may be stricter than `standard`.
package struct BatchLimits: Hashable, Sendable {
    /// The size of the received batch, in bytes.
    package var batchBytes: Int
    /// The size of its unpacked payload, in bytes.
    package var plainBytes: Int
    package var transactions: Int

    package init(
        batchBytes: Int = WireLimits.maximumBatchBytes, plainBytes: Int = WireLimits.maximumPlainBytes,
        transactions: Int = WireLimits.maximumTransactions
    ) {
        self.batchBytes = batchBytes
        self.plainBytes = plainBytes
        self.transactions = transactions
    }

    package static let standard = BatchLimits()
}

extension Position {
    /// A position from a header or from JSON. nil for a number that no log has. The next position is valid, too.
    package init?(fromElsewhere number: Int64) {
        guard (0...WireLimits.maximumPosition).contains(number) else { return nil }
        self.init(number)
    }
}
