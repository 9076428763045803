import AnnalsCore

/// Limits how long one exchange continues with a relay if its answers make no progress. Such answers are *wait*, a
/// request to send the parts again, a request to come back later, or an empty page of a log that has more entries.
///
/// The times of pauses and requests are added until there is progress. Then the count starts again at zero. So a large
/// exchange may take as long as it needs, and an exchange without progress ends. This value has no clock; the caller
/// passes all times.
struct ExchangePatience {
    /// The time since the last progress.
    private var spent = Duration.zero
    private var fruitlessRounds = 0
    private var backoff = Backoff()
    /// The last position of the log that was received, and the last counter of this replica that was accepted. Data
    /// that is dropped and received again is no progress.
    private var furthest = Position.zero
    private var furthestCounter = Counter.zero

    /// Progress: the count starts again at zero.
    mutating func renew() {
        (spent, fruitlessRounds, backoff) = (.zero, 0, Backoff())
    }

    /// The log was received up to a position.
    mutating func note(logThrough position: Position) {
        guard position > furthest else { return }
        furthest = position
        renew()
    }

    /// The relay has accepted a part of a transaction. A part has its own counter.
    mutating func note(partTaken counter: Counter) {
        guard counter > furthestCounter else { return }
        furthestCounter = counter
        renew()
    }

    /// A request has ended, with or without an answer. Only a part of its time counts, because a request with many
    /// bytes takes long on a slow connection.
    mutating func note(request time: Duration) {
        spent += min(max(time, .zero), SyncLimits.countedTimeOfRequest)
    }

    /// Whether there is enough time left for a pause. If so, the pause is counted.
    mutating func allows(_ pause: Duration) -> Bool {
        guard spent + pause <= SyncLimits.patience else { return false }
        spent += pause
        return true
    }

    /// The same for the pause of a *wait* answer. The pause is at least as long as the shortest one of our relay. Its
    /// time is counted, but it does not count as a round.
    mutating func pauseForLease(_ milliseconds: Int) -> Duration? {
        let pause = max(.milliseconds(milliseconds), SyncLimits.shortestWaitForLease)
        fruitlessRounds = 0
        return allows(pause) ? pause : nil
    }

    /// The pause before another round. Zero for the first rounds after progress, nil if there were too many rounds.
    mutating func nextRound(random: () -> Double) -> Duration? {
        fruitlessRounds += 1
        guard fruitlessRounds <= SyncLimits.fruitlessRounds else { return nil }
        guard fruitlessRounds > SyncLimits.roundsWithoutPause else { return .zero }
        let pause = backoff.next(random: random)
        return allows(pause) ? pause : nil
    }
}
