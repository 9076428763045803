/// What the log refuses to exceed, by name. The defaults suit one machine with a few gigabytes of memory.
package struct RelayLogLimits: Sendable, Hashable {
    /// Pushes that wait for the writer; one more is answered as overloaded.
    package var pendingPushes = 4096
    /// Bytes of batches that wait for the writer.
    package var pendingBytes = 512 << 20
    /// Pushes that share one commit, and so one fsync.
    package var groupPushes = 512
    /// Bytes of batches that share one commit. A single larger batch has a commit of its own. A push to a quiet space waits for one such
    /// commit of a busy one.
    package var groupBytes = 4 << 20
    /// How often a commit is tried that a lost connection or another relay undid.
    package var commitAttempts = 3
    /// What one token, space and address may take of what all share.
    package var shares = SharePercents()
    /// Bytes of parts of unfinished transactions, of one space; and of one credential in it.
    package var spacePartBytes: Int64 = 32 << 30
    package var tokenPartBytes: Int64 = 16 << 30
    /// How long such parts wait for the next one.
    package var parkedPartMilliseconds: Int64 = 86_400_000
    /// Live replicas that one credential may push as, in one space.
    package var replicasPerToken = 1_000
    /// Spaces that one credential may have made.
    package var spacesPerToken = 256
    /// Bytes of parts that wait for the rest of their transaction, per replica: the largest transaction, packed.
    package var pendingPartBytes: Int64 = 8 << 30
    /// Footprint hashes kept per space; a base older than they reach is answered as stale.
    package var hashesPerSpace = 262_144
    /// Spaces whose footprints are kept in memory; the one unused for longest makes room.
    package var residentSpaces = 64
    /// Requests that wait for a head to move, event streams among them.
    package var waiters = 20_000
    /// Stale answers in a row after which a replica gets the turn (merge rule 13).
    package var staleAnswersBeforeTurn = 3
    /// How long a turn lasts at most.
    package var turnMilliseconds: Int64 = 2000
    /// The longest time that a *wait* answer names: the turn mostly ends with its holder's push, long before its time.
    package var waitHintMilliseconds: Int64 = 50
    /// Replicas per space whose stale answers are counted.
    package var replicasCounted = 4096
    /// Connections that read.
    package var readers = 4
    /// How long the storage has to answer whoever watches the relay.
    package var answerMilliseconds: Int64 = 5_000
    /// Replicas whose positions are remembered until the next commit or interval.
    package var unsavedSightings = 10_000
    /// How old a remembered position may become before it is written.
    package var sightingMilliseconds: Int64 = 1_000
    /// Sightings of one credential in one space that one write keeps: the newest.
    package var sightingsSaved = 1_000
    /// Replicas of one space that one credential has named in requests and never pushed as; the one seen longest ago makes room.
    package var sightedReplicas = 64
    /// Replicas of one space that only credentials for reading have named; the one seen longest ago makes room.
    package var readersPerSpace = 1_024
    /// Characters of a replica's display name, and of its program's; longer ones are cut.
    package var nameCharacters = 128
    /// Spaces that there may be; making one more is refused.
    package var spaces = 10_000
    /// Bytes that a space may have: its log as far as it is kept, parts that wait, and snapshots. Beyond it pushes are refused; its
    /// snapshots, and those being received, have no more than that among themselves.
    package var spaceBytes: Int64 = 256 << 30
    /// For how long it is believed what a space has, as far as that changes by others than its pushes.
    package var spaceUseMilliseconds: Int64 = 5_000
    /// Reports of refused entries that a space keeps, and those of one owner among them; further ones are refused.
    package var reportsPerSpace: Int64 = 10_000
    package var reportsPerOwner: Int64 = 1_000
    /// Owners that a line of the audit log names; of further ones it has the number.
    static let ownersNamed = 16
    /// Bytes of the disk that are left free: pushes, new spaces and snapshots are refused before.
    package var diskReserveBytes: Int64 = 256 << 20
    /// How often it is looked how much of the disk is free, at most.
    package var diskLookMilliseconds: Int64 = 500
    /// Bytes of one snapshot.
    package var snapshotBytes: Int64 = 64 << 30
    /// Snapshot uploads under way at once.
    package var snapshotUploads = 16
    /// Snapshots kept per space: the newest, the oldest that the log still follows, and some between.
    package var snapshotsKept = 8
    /// A snapshot is due when the log since the newest one has so many bytes, and as many as that snapshot.
    package var snapshotLogBytes: Int64 = 8 << 20
    /// Or when it has so many positions.
    package var snapshotLogPositions: Int64 = 100_000
    /// How long the replica that was asked for a snapshot has for it before another one is asked.
    package var snapshotLeaseMilliseconds: Int64 = 10 * 60_000
    /// Bytes of log that one commit of a purge drops; pushes come in between.
    package var purgeSliceBytes: Int64 = 16 << 20
    /// Runs that one commit of a purge drops.
    package var purgeSliceRuns = 500
    /// How long an upload in parts waits for its next part before another one may take its place.
    package var parkedUploadMilliseconds: Int64 = 10 * 60_000
    /// How often a snapshot's file is looked for anew when a newer one took its place between the look and the opening.
    package var snapshotOpenings = 5
    /// Days of growth that are told of a space.
    package var growthDays = 30
    /// How long after its deadline a wait may end.
    package var waitTickMilliseconds = 100
    /// For how long a verified token is believed without asking the database: one that another process revokes is
    /// refused after at most so long.
    package var tokenMilliseconds: Int64 = 1000
    /// Verified tokens that are believed at once.
    package var tokensRemembered = 4096

    package init() {}
}
