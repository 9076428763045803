/// Named bounds of an exchange with the relay.
package enum SyncLimits {
    /// Bytes asked for in one page of the log.
    package static let pageBytes = 2 << 20
    /// Requests in one call of `sync`; more means that others write the same rows all the while.
    package static let roundsPerSync = 2_000
    /// Tries of one request that gets no answer, before `sync` gives up for now.
    package static let triesPerRequest = 5
    /// How often rows are compared with the log anew because the store moved meanwhile.
    package static let triesToReconcile = 5
    /// After how long a space that has only its first entry may be taken over from whoever began it.
    package static let abandonedAfterMilliseconds: Int64 = 10 * 60 * 1_000
    /// How often a join looks again because another store made the space just then.
    package static let joinAttempts = 3
    /// The first pause between tries; each further one is twice as long, up to the longest.
    package static let firstPause = Duration.milliseconds(200)
    package static let longestPause = Duration.seconds(30)
    /// How long the relay may hold back an answer while there is nothing new.
    package static let longPoll = Duration.seconds(25)
    /// An empty answer to such a request that comes sooner than this was not held back at all.
    package static let shortestWait = Duration.seconds(1)
    /// Events that wait for a listener who is busy. Beyond them the oldest go; the newest of an operation says all of it.
    package static let waitingEvents = 64
    /// Bytes of a snapshot between two events that tell of it.
    package static let bytesPerEvent: Int64 = 256 << 10
    /// Snapshots that a clone passes over because they cannot be used. A relay keeps eight.
    package static let snapshotsPassedOver = 8
    /// Positions of others' entries that a copy passes over on its way to this replica's own newest one.
    package static let positionsPassedOver: Int64 = 1 << 22
    /// The largest snapshot that is unpacked.
    package static let snapshotBytes: Int64 = 1 << 40
    /// The largest answer that is taken: a page may hold one transaction larger than what was asked for.
    package static let answerBytes = 96 << 20
    /// How long a whole request may take when it moves few bytes.
    package static let requestTimeout = Duration.seconds(60)
    /// How long such a request may move none.
    package static let silence = Duration.seconds(25)
    /// Tries of one request that stood and was not answered in time. The second goes by another connection, in case a kept one is dead.
    package static let triesWithoutAnswer = 2
}
