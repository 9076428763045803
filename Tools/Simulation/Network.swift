import AnnalsCore

/// The delays and faults of one request. They are drawn from the seed, the step of the request and its number in the step. So they
/// do not change if another step is left out.
struct RequestOutcome {
    /// Milliseconds on the way to the relay and back.
    let there: Int64
    let back: Int64
    private var faults: [any RequestFault] = []

    /// How long a replica waits for a missing answer.
    static let patience: Int64 = 1_500

    init(_ plan: NetworkPlan, seed: UInt64, step: Int, request: Int) {
        var dice = Dice(seed: seed, 4, UInt64(step), UInt64(request))
        there = Int64(dice.number(0...plan.delay))
        back = Int64(dice.number(0...plan.delay))
        for fault in RequestFaults.all where dice.chance(plan.percentage(of: fault)) { faults.append(fault.init(&dice)) }
    }

    /// What gets to the relay of the request; nil if it gets lost.
    func onTheWay(_ request: Session.Request) -> Session.Request? {
        faults.reduce(Optional(request)) { request, fault in request.flatMap { fault.onTheWay($0) } }
    }

    /// The answer to the request if the relay does not carry it out.
    func inPlaceOfRelay(_ request: Session.Request) -> Session.Reply? {
        faults.compactMap { $0.inPlaceOfRelay(request) }.first
    }

    /// What gets to the replica of the answer; nil if it gets lost.
    func onTheWayBack(_ reply: Session.Reply) -> Session.Reply? {
        faults.reduce(Optional(reply)) { reply, fault in reply.flatMap { fault.onTheWayBack($0) } }
    }

    /// How much later copies of the request arrive.
    var copies: [Int64] { faults.compactMap { $0.repeatedAfter } }
}

extension NetworkPlan {
    func percentage(of fault: any RequestFault.Type) -> Int { percentages[fault.name, default: 0] }

    /// Whether its faults explain that an exchange failed with this code.
    func explains(_ code: AnnalsError.Code) -> Bool {
        RequestFaults.all.contains { percentage(of: $0) > 0 && $0.explains(code) }
    }

    /// Whether a replica may wait for an answer in vain.
    var losesAnything: Bool { explains(.relayUnreachable) }
}
