import AnnalsCore

/// How long one exchange goes on with a relay whose answers bring nothing: wait, send the parts again, come back later, an empty page of
/// a log that is said to go on.
///
/// Pauses and the time of requests add up until something moves; then the count begins anew. So a large exchange may take as long as it
/// needs, and one that stands still ends. A value without a clock: times come in as parameters.
struct ExchangePatience {
    /// Spent since something moved.
    private var spent = Duration.zero
    private var fruitlessRounds = 0
    private var backoff = Backoff()
    /// Where the log and this replica's own counters have come to. What is dropped and comes again is no progress.
    private var furthest = Position.zero
    private var furthestCounter = Counter.zero

    /// Something moved.
    mutating func renew() {
        (spent, fruitlessRounds, backoff) = (.zero, 0, Backoff())
    }

    /// The log is here up to a position.
    mutating func note(logThrough position: Position) {
        guard position > furthest else { return }
        furthest = position
        renew()
    }

    /// The relay has taken a part, which has a counter of its own.
    mutating func note(partTaken counter: Counter) {
        guard counter > furthestCounter else { return }
        furthestCounter = counter
        renew()
    }

    /// A request was answered, or not. Only some of its time counts, since one that moves many bytes over a slow line takes long by itself.
    mutating func note(request time: Duration) {
        spent += min(max(time, .zero), SyncLimits.countedTimeOfRequest)
    }

    /// Whether there is enough left for a pause, which is then spent.
    mutating func allows(_ pause: Duration) -> Bool {
        guard spent + pause <= SyncLimits.patience else { return false }
        spent += pause
        return true
    }

    /// The same for the pause that a *wait* names, no shorter than a relay's own. It is counted by its time, and not as a round.
    mutating func turn(in milliseconds: Int) -> Duration? {
        let pause = max(.milliseconds(milliseconds), SyncLimits.shortestWaitForTurn)
        fruitlessRounds = 0
        return allows(pause) ? pause : nil
    }

    /// The pause before another round, none before the first ones after something moved; nil when there were too many.
    mutating func nextRound(random: () -> Double) -> Duration? {
        fruitlessRounds += 1
        guard fruitlessRounds <= SyncLimits.fruitlessRounds else { return nil }
        guard fruitlessRounds > SyncLimits.roundsWithoutPause else { return .zero }
        let pause = backoff.next(random: random)
        return allows(pause) ? pause : nil
    }
}
