/// Named bounds of an exchange with the relay.
package enum SyncLimits {
    /// Of the disk, beyond a snapshot that is to be downloaded.
    static let bytesLeftFree: Int64 = 64 << 20
    /// Bytes asked for in one page of the log.
    package static let pageBytes = 2 << 20
    /// How often a push is refused in one call of `sync`; more means that others write the same rows all the while.
    package static let refusalsPerSync = 2_000
    /// How long one exchange goes on while nothing moves: pauses, and the time of requests. A relay's own *wait* ends sooner, and so does
    /// its `Retry-After` when there is only much to do.
    package static let patience = Duration.seconds(120)
    /// How much of a request's time counts against `patience`. One that moves many bytes over a slow line may take minutes.
    package static let countedTimeOfRequest = Duration.seconds(5)
    /// Rounds of an exchange, a push or a pull each, in which nothing moves, and how many of them follow one another without a pause: a push
    /// that is refused, and the pull that brings what it met.
    package static let fruitlessRounds = 6
    package static let roundsWithoutPause = 2
    /// The shortest pause that a *wait* leads to, which a relay of ours names, too.
    package static let shortestWaitForTurn = Duration.milliseconds(50)
    /// Pages of the log that are looked through for a push that got no answer.
    package static let pagesLookedThrough = 4_000
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
    /// How long a whole request may take whose bodies are small. Pushes and pages have no such limit: see `HTTPLimits.slowestBody`.
    package static let requestTimeout = Duration.seconds(60)
    /// Of the request that tells of a replica that leaves, which the store does not depend on.
    package static let farewellTimeout = Duration.seconds(10)
    /// How long such a request may move none.
    package static let silence = Duration.seconds(25)
    /// Tries of one request that stood and was not answered in time. The second goes by another connection, in case a kept one is dead.
    package static let triesWithoutAnswer = 2
}
