/// Limits of the log. The defaults suit one machine with a few gigabytes of memory.
package struct RelayLogLimits: Sendable, Hashable {
    /// Pushes that wait for the writer; one more is refused as overloaded.
    package var pendingPushes = 4096
    /// Bytes of the batches that wait for the writer.
    package var pendingBytes = 512 << 20
    /// Pushes in one commit, which has one fsync.
    package var groupPushes = 512
    /// Bytes of the batches in one commit. A larger batch gets a separate commit. A push to a quiet space waits for
    /// at most one such commit of a busy space.
    package var groupBytes = 4 << 20
    /// How often a commit is tried if a lost connection or another relay rolls it back.
    package var commitAttempts = 3
    /// The shares of common resources that one token, one space and one address can use.
    package var shares = SharePercents()
    /// Bytes of buffered parts of unfinished transactions, for one space; and for one credential in it.
    package var spacePartBytes: Int64 = 32 << 30
    package var tokenPartBytes: Int64 = 16 << 30
    /// How long buffered parts wait for the next one.
    package var parkedPartMilliseconds: Int64 = 86_400_000
    /// Live replicas of one credential in one space.
    package var replicasPerToken = 1_000
    /// Spaces that one credential can create.
    package var spacesPerToken = 256
    /// Bytes of buffered parts for each replica: the largest transaction, compressed.
    package var pendingPartBytes: Int64 = 8 << 30
    /// Footprint hashes kept for each space; an older base is stale.
    package var hashesPerSpace = 262_144
    /// Spaces with footprints in memory; the least recently used one is evicted.
    package var residentSpaces = 64
    /// Requests that wait for a head to move, including event streams.
    package var waiters = 20_000
    /// Consecutive stale answers after which a replica gets the push lease (merge rule 13).
    package var staleAnswersBeforeLease = 3
    /// The longest duration of a push lease.
    package var pushLeaseMilliseconds: Int64 = 2000
    /// The longest time in a *wait* answer. A lease usually ends with its holder's push, long before it expires.
    package var waitHintMilliseconds: Int64 = 50
    /// Replicas of one space with counted stale answers.
    package var replicasCounted = 4096
    /// Read connections.
    package var readers = 4
    /// The time limit for the storage to answer a health check or a metrics request.
    package var answerMilliseconds: Int64 = 5_000
    /// Acknowledgements that are kept in memory before they are written.
    package var unsavedAcknowledgements = 10_000
    /// The longest time that an acknowledgement stays unwritten.
    package var acknowledgementMilliseconds: Int64 = 1_000
    /// The newest acknowledgements of one credential in one space that one write stores.
    package var acknowledgementsSaved = 1_000
    /// Replicas of one space that one credential named in requests and never pushed as; the one seen longest ago is
    /// evicted.
    package var sightedReplicas = 64
    /// Replicas of one space that only read-only credentials named; the one seen longest ago is evicted.
    package var readersPerSpace = 1_024
    /// Characters of a replica's display name and of its program's name; longer names are cut.
    package var nameCharacters = 128
    /// Spaces on the relay; the creation of one more is refused.
    package var spaces = 10_000
    /// Bytes of one space: kept log, buffered parts and snapshots. Above it pushes are refused. The space's snapshots,
    /// with the uploads under way, have the same limit.
    package var spaceBytes: Int64 = 256 << 30
    /// How long the size of a space's snapshots is cached. Pushes update the other sizes at once.
    package var spaceUseMilliseconds: Int64 = 5_000
    /// Reports of refused entries for each space, and for each owner in it; further reports are refused.
    package var reportsPerSpace: Int64 = 10_000
    package var reportsPerOwner: Int64 = 1_000
    /// Owners that one line of the audit log names; it gives only the number of the others.
    static let ownersNamed = 16
    /// Bytes of the disk to keep free. Below that, pushes, new spaces and snapshots are refused.
    package var diskReserveBytes: Int64 = 256 << 20
    /// The shortest time between two checks of the free disk space.
    package var diskLookMilliseconds: Int64 = 500
    /// Bytes of one snapshot.
    package var snapshotBytes: Int64 = 64 << 30
    /// Concurrent snapshot uploads.
    package var snapshotUploads = 16
    /// Snapshots kept for each space: the newest, the oldest that the log still follows, and some between.
    package var snapshotsKept = 8
    /// A snapshot is due if the log since the newest snapshot has this many bytes, and at least the bytes of that
    /// snapshot.
    package var snapshotLogBytes: Int64 = 8 << 20
    /// A snapshot is also due after this many positions.
    package var snapshotLogPositions: Int64 = 100_000
    /// How long a replica has to make a requested snapshot before another replica is asked.
    package var snapshotLeaseMilliseconds: Int64 = 10 * 60_000
    /// The longest time in which an owner whose snapshots are refused for want of room is not asked for another one.
    /// The first pause is `snapshotLeaseMilliseconds`; each refusal after a pause doubles it.
    package var snapshotPauseMilliseconds: Int64 = 60 * 60_000
    /// Bytes of log that one commit of a purge drops; pushes are committed between two slices.
    package var purgeSliceBytes: Int64 = 16 << 20
    /// Runs that one commit of a purge drops.
    package var purgeSliceRuns = 500
    /// How long an upload in parts waits for its next part before another upload can replace it.
    package var parkedUploadMilliseconds: Int64 = 10 * 60_000
    /// How often the opening of a snapshot is tried if a newer one replaces it after the lookup.
    package var snapshotOpenings = 5
    /// Days of growth that a space's summary lists.
    package var growthDays = 30
    /// How late after its deadline a wait can end.
    package var waitTickMilliseconds = 100
    /// How long a verified token is cached without a query to the database. A token that another process revokes is
    /// refused after at most this time.
    package var tokenMilliseconds: Int64 = 1000
    /// Verified tokens in the cache.
    package var tokensRemembered = 4096

    package init() {}
}
