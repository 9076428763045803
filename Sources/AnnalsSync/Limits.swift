/// The limits of an exchange with the relay.
package enum SyncLimits {
    /// Disk space that must stay free after the download of a snapshot, in bytes.
    static let bytesLeftFree: Int64 = 64 << 20
    /// The requested size of one page of the log, in bytes.
    package static let pageBytes = 2 << 20
    /// The largest part of the log that is applied at once, in bytes, because its rows satisfy this store's constraints only at its end.
    package static let bytesWithCorrections = 256 << 20
    /// The highest age of an answer from a cache that counts, in seconds.
    static let cachedSeconds: Int64 = 30 * 86_400
    /// How often a push may be refused in one call of `sync`. If it happens more often, other replicas write the same
    /// rows all the time.
    package static let refusalsPerSync = 2_000
    /// With more transactions in the outbox, a push is frozen in an SQLite transaction of its own.
    static let outboxFrozenAtOnce = 64
    /// How many exchanges a confirmation of a transaction may take.
    static let exchangesToConfirm = 10
    /// How often the closure of a serializable write may run.
    static let runsToSerialize = 10
    /// The longest pause before the second run. Later ones are longer, each by as much.
    static let pauseToSerialize = Duration.milliseconds(20)
    /// How long one exchange continues without progress: the sum of its pauses and request times. Our relay's *wait*
    /// ends sooner, and so does its `Retry-After` if it is only busy.
    package static let patience = Duration.seconds(120)
    /// How much of one request's time counts against `patience`. A request with many bytes may take minutes on a slow
    /// connection.
    package static let countedTimeOfRequest = Duration.seconds(5)
    /// How many rounds without progress an exchange may have, and how many of them may follow one another without a
    /// pause. A round is a push or a pull. Two rounds are normal: a refused push, and the pull of the conflicting
    /// entries.
    package static let fruitlessRounds = 6
    package static let roundsWithoutPause = 2
    /// The shortest pause after a *wait* answer. It is also the shortest that our relay asks for.
    package static let shortestWaitForLease = Duration.milliseconds(50)
    /// How many pages of the log are searched for a push that got no answer.
    package static let pagesLookedThrough = 4_000
    /// The attempts for one request without an answer, before `sync` ends with an error.
    package static let triesPerRequest = 5
    /// How often the comparison of rows with the log starts again because the store changed meanwhile.
    package static let triesToReconcile = 5
    /// The age at which another store may take over a space that has only its first entry.
    package static let abandonedAfterMilliseconds: Int64 = 10 * 60 * 1_000
    /// How often a join starts again because another store created the space at the same time.
    package static let joinAttempts = 3
    /// The first pause between attempts. Each pause is twice as long as the one before, up to the longest.
    package static let firstPause = Duration.milliseconds(200)
    package static let longestPause = Duration.seconds(30)
    /// How long the relay may delay its answer if there is nothing new.
    package static let longPoll = Duration.seconds(25)
    /// If an empty answer to such a request arrives sooner, the relay did not delay it.
    package static let shortestWait = Duration.seconds(1)
    /// How many events may wait for a slow listener. Above it the oldest are dropped. The newest event of an operation
    /// contains all its facts.
    package static let waitingEvents = 64
    /// How many bytes of a snapshot are transferred between two events about it.
    package static let bytesPerEvent: Int64 = 256 << 10
    /// How many unusable snapshots a clone may skip. A relay keeps eight.
    package static let snapshotsPassedOver = 8
    /// How many positions with entries of others a copy may skip up to this replica's newest entry.
    package static let positionsPassedOver: Int64 = 1 << 22
    /// The largest snapshot that is unpacked, in bytes.
    package static let snapshotBytes: Int64 = 1 << 40
    /// The largest accepted answer, in bytes. A page may contain one transaction that is larger than the requested
    /// size.
    package static let answerBytes = 96 << 20
    /// The time limit of a request with small bodies. Pushes and pages have no time limit; see
    /// `HTTPLimits.slowestBody`.
    package static let requestTimeout = Duration.seconds(60)
    /// The time limit of the request by which a replica leaves. The store does not depend on its success.
    package static let farewellTimeout = Duration.seconds(10)
    /// How long a request may go without a moved byte.
    package static let silence = Duration.seconds(25)
    /// The attempts for one request that was connected but not answered in time. The second attempt uses a new
    /// connection, because a reused one may be dead.
    package static let triesWithoutAnswer = 2
}
