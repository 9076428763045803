package import AnnalsCore

/// The named limits of everything that travels. Both ends keep to them, so neither can be made to hold more.
package enum WireLimits {
    /// A batch's payload, unpacked, in bytes. A transaction beyond it travels in parts.
    package static let maximumPlainBytes = 64 << 20
    /// Parts of one transaction.
    package static let maximumParts = 65_536
    /// A body that travels in pieces, put together: its changes, each of which holds two values at most, have 1 GB per value.
    package static let maximumBodyBytes = 4 << 30
    /// A batch as it is sent, in bytes: an incompressible payload and its certificates.
    package static let maximumBatchBytes = 80 << 20
    /// Transactions in one batch.
    package static let maximumTransactions = 65_536
    /// Policies, and resolutions, that one transaction sets; and the entries that one voids.
    package static let maximumDecisions = 65_536
    /// Journal entries in one body. An author ends a part long before: each takes some ten bytes at least.
    package static let maximumJournalEntries = 1 << 19
    /// Tables that one body names, a batch has layouts of, or a schema entry tracks.
    package static let maximumTables = 65_536
    /// Statements of one schema entry: tables, indexes, triggers and views.
    package static let maximumStatements = 65_536
    /// Sections of a body without a change in them. Bytes that repeat pack so well that a small batch could hold millions.
    package static let maximumEmptySections = 1_024
    /// Unpacked bytes after which an author starts another batch.
    package static let batchTargetBytes = 1 << 20
    /// Bytes of batches after which a relay ends a page, unless it has only one frame.
    package static let pageTargetBytes = 1 << 20
    /// The most that a reader may ask for with `limit`, in bytes.
    package static let maximumPageTargetBytes = 16 << 20
    /// A page as it is sent, in bytes: its target, and a last frame that went beyond.
    package static let maximumPageBytes = maximumPageTargetBytes + maximumBatchBytes + (1 << 20)
    /// Frames in one page.
    package static let maximumFrames = 65_536
    /// Bytes of log that a push's answer carries inline.
    package static let inlinePageBytes = 1 << 20
    /// Bytes of a snapshot that are sent at once, and so the most that a broken connection makes to be sent again.
    package static let snapshotPartBytes = 4 << 20
    /// The largest part of a snapshot that a relay takes.
    package static let maximumSnapshotPartBytes = 16 << 20
    /// How many bytes a snapshot unpacks to for each packed byte, beyond `snapshotBytesOfAnyRatio`. Measured at level 3, pages of 4 KiB:
    /// rows with UUIDs 2, integers alone 32, 50,000 equal texts of 3,900 bytes 430, a blob of 200 MB of zeros 1,170, a file of 100 MB
    /// whose rows were deleted 1,870.
    package static let snapshotRatio: Int64 = 2_500
    /// Bytes to which a snapshot may unpack whatever its ratio: a small file packs better, and harms nobody.
    package static let snapshotBytesOfAnyRatio: Int64 = 64 << 20
    /// Columns of one table; SQLite cannot be built for more.
    package static let maximumColumns = 32_767
    /// The longest time a pull waits at the relay, in seconds.
    package static let maximumWaitSeconds = 60
    /// The longest time that an answer has an author wait for its turn, in milliseconds.
    package static let maximumTurnMilliseconds = 300_000
    /// The greatest position and counter: no count added to it can overflow.
    package static let maximumPosition: Int64 = 1 << 62
    /// The greatest distance of a time from 1970, in milliseconds: no lead added to it can overflow.
    package static let maximumMilliseconds: Int64 = 1 << 62
    /// Memory that unpacking may take for its window, as a power of two; RFC 8878 recommends 8 MiB.
    package static let maximumWindowLog = 23
}

/// What one reader of batches accepts; a relay may be stricter than `standard`.
package struct BatchLimits: Hashable, Sendable {
    /// Bytes of the batch as it came.
    package var batchBytes: Int
    /// Bytes of its payload when unpacked.
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
    /// A position that a header or JSON says; nil for a number that no log has. What follows upon it, too, is a number.
    package init?(fromElsewhere number: Int64) {
        guard (0...WireLimits.maximumPosition).contains(number) else { return nil }
        self.init(number)
    }
}
