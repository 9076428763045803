import AnnalsCore

/// A fault with steps of its own: how it is drawn, how it reads in a story, what it does, and how it ends.
///
/// A new fault takes two files: its own, with a type that conforms to this protocol, and a line in `Faults.all`. A fault that keeps
/// state also has properties in `SimulatedSpace`, and the world asks for them where they matter. `RelayCrash` is an example, with
/// `relayIsDown`. A fault of a single request conforms to `RequestFault` instead.
protocol Fault: Sendable {
    /// The name by which `Features.faultsLeftOut` leaves the fault out.
    static var name: String { get }
    /// Draws steps into a plan, with dice and step numbers that no other file uses.
    static func add(to plan: inout Plan, _ features: Features)
    /// Whether the fault explains that an exchange failed.
    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool
    /// Ends the fault before the last rounds, in which everything must settle.
    static func end(in space: SimulatedSpace) async throws

    /// The step's text in a story, after the name of the replica.
    var text: String { get }
    func perform(on replica: Int, in space: SimulatedSpace) async throws
}

extension Fault {
    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool { false }
    static func end(in space: SimulatedSpace) async throws {}
}

enum Faults {
    /// In the order in which they are drawn. A new fault comes last, so that the others stay the same.
    static let all: [any Fault.Type] = [RelayCrash.self, UntrackedChildren.self, NullKeys.self, Migrations.self]

    static func add(to plan: inout Plan, _ features: Features) {
        guard plan.length > 0 else { return }
        for fault in all where !features.faultsLeftOut.contains(fault.name) { fault.add(to: &plan, features) }
    }
}
