/// The delays and faults of one request. They are drawn from the seed, the step of the request and its number in the step. So they
/// do not change if another step is left out.
struct RequestOutcome {
    /// Milliseconds on the way to the relay and back.
    var there: Int64
    var back: Int64
    var isRequestLost = false
    var isAnswerLost = false
    /// The relay answers that it is overloaded.
    var isRefused = false
    /// A copy of the request arrives this much later.
    var repeatedAfter: Int64?

    /// How long a replica waits for a missing answer.
    static let patience: Int64 = 1_500

    init(_ plan: NetworkPlan, seed: UInt64, step: Int, request: Int) {
        var dice = Dice(seed: seed, 4, UInt64(step), UInt64(request))
        there = Int64(dice.number(0...plan.delay))
        back = Int64(dice.number(0...plan.delay))
        isRequestLost = dice.chance(plan.lostRequests)
        isAnswerLost = dice.chance(plan.lostAnswers)
        isRefused = dice.chance(plan.refused)
        if dice.chance(plan.repeated) { repeatedAfter = Int64(dice.one(of: [1, 50, 400, 3_000, 20_000])) }
    }
}
