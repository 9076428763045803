import AnnalsCore
import AnnalsSync
import AnnalsWire

/// A fault of a single request: how it is drawn, how it reads in a story, and what it does.
///
/// A new fault takes two files: its own, with a type that conforms to this protocol, and a line in `RequestFaults.all`. The faults in
/// this file are examples.
protocol RequestFault: Sendable {
    /// The name by which `Features.faultsLeftOut` leaves the fault out.
    static var name: String { get }
    /// Draws the percentage of a world's requests with the fault.
    static func percent(_ dice: inout Dice) -> Int
    /// Its part of the line about the network in a story, with the comma before it.
    static func text(_ percent: Int) -> String
    /// Whether the fault explains that an exchange failed with this code.
    static func explains(_ code: AnnalsError.Code) -> Bool

    /// Draws what else belongs to the fault of one request.
    init(_ dice: inout Dice)
    /// What gets to the relay of a request; nil if it gets lost.
    func onTheWay(_ request: Session.Request) -> Session.Request?
    /// The answer to a request that the relay does not carry out; nil if it does.
    func inPlaceOfRelay(_ request: Session.Request) -> Session.Reply?
    /// What gets to the replica of an answer; nil if it gets lost.
    func onTheWayBack(_ reply: Session.Reply) -> Session.Reply?
    /// A copy of the request arrives this much later; nil if there is none.
    var repeatedAfter: Int64? { get }
}

extension RequestFault {
    static func explains(_ code: AnnalsError.Code) -> Bool { [.relayUnreachable, .relayOverloaded].contains(code) }
    func onTheWay(_ request: Session.Request) -> Session.Request? { request }
    func inPlaceOfRelay(_ request: Session.Request) -> Session.Reply? { nil }
    func onTheWayBack(_ reply: Session.Reply) -> Session.Reply? { reply }
    var repeatedAfter: Int64? { nil }
}

enum RequestFaults {
    /// In the order in which they are drawn for a request. A new fault comes last, so that the others stay the same.
    static let all: [any RequestFault.Type] = [LostRequest.self, LostAnswer.self, RefusedRequest.self, RepeatedRequest.self]

    /// The percentages of these are drawn with the plan's dice, in this order. Later faults have dice of their own, so that the rest of
    /// the plan stays the same.
    private static let oldest: [any RequestFault.Type] = [LostRequest.self, LostAnswer.self, RepeatedRequest.self, RefusedRequest.self]
    private static var later: [any RequestFault.Type] { Array(all.dropFirst(oldest.count)) }

    /// Draws how often each fault happens in a world. A fault that is left out is drawn too, so that the others stay the same.
    static func percentages(_ features: Features, seed: UInt64, _ dice: inout Dice) -> [String: Int] {
        var percentages: [String: Int] = [:]
        for fault in oldest { percentages[fault.name] = fault.percent(&dice) }
        for (number, fault) in later.enumerated() {
            var own = Dice(seed: seed, 17, UInt64(number))
            percentages[fault.name] = fault.percent(&own)
        }
        for name in features.faultsLeftOut { percentages[name] = nil }
        return percentages
    }

    static func text(of network: NetworkPlan) -> String {
        (oldest + later).map { $0.text(network.percentage(of: $0)) }.joined()
    }
}

// MARK: The faults

struct LostRequest: RequestFault {
    static let name = "lost request"
    static func percent(_ dice: inout Dice) -> Int { dice.number(0...15) }
    static func text(_ percent: Int) -> String { "loses \(percent) % of requests" }

    init(_ dice: inout Dice) {}
    func onTheWay(_ request: Session.Request) -> Session.Request? { nil }
}

struct LostAnswer: RequestFault {
    static let name = "lost answer"
    static func percent(_ dice: inout Dice) -> Int { dice.number(0...20) }
    static func text(_ percent: Int) -> String { " and \(percent) % of answers" }

    init(_ dice: inout Dice) {}
    func onTheWayBack(_ reply: Session.Reply) -> Session.Reply? { nil }
}

/// The relay answers that it is overloaded.
struct RefusedRequest: RequestFault {
    static let name = "refused request"
    static func percent(_ dice: inout Dice) -> Int { dice.number(0...5) }
    static func text(_ percent: Int) -> String { ", refuses \(percent) %" }

    init(_ dice: inout Dice) {}
    func inPlaceOfRelay(_ request: Session.Request) -> Session.Reply? {
        Session.Reply.failed(.problem(Problem(.unavailable), retryAfter: nil))
    }
}

struct RepeatedRequest: RequestFault {
    static let name = "repeated request"
    static func percent(_ dice: inout Dice) -> Int { dice.number(0...25) }
    static func text(_ percent: Int) -> String { ", repeats \(percent) %" }
    static func explains(_ code: AnnalsError.Code) -> Bool { false }

    let repeatedAfter: Int64?

    init(_ dice: inout Dice) { repeatedAfter = Int64(dice.one(of: [1, 50, 400, 3_000, 20_000])) }
}
