import AnnalsCore

/// Whether the relay answers. It reports changes of this state, and whether an error may end without a user's action.
struct Reachability {
    enum Change: Equatable {
        case made
        case lost
        case madeAgain
    }

    private enum State { case unknown, inTouch, away }
    private var state = State.unknown
    private var wasInTouch = false

    /// The relay answered.
    mutating func answered() -> Change? {
        defer {
            state = .inTouch
            wasInTouch = true
        }
        switch state {
        case .inTouch: return nil
        case .away: return wasInTouch ? .madeAgain : .made
        case .unknown: return .made
        }
    }

    /// The exchange failed with an error that may end by itself.
    mutating func failed() -> Change? {
        defer { state = .away }
        return state == .away ? nil : .lost
    }

    /// If an address never was a relay, it is wrong. If it was one, the error may be temporary: a network that shows
    /// its own page, or a certificate that must be renewed. A schema that the space refuses, or that is behind,
    /// can be changed, here or in the space. Until then local writes are captured.
    func passes(_ error: AnnalsError) -> Bool {
        error.isRetryable || [.schemaRefused, .waitingForMigration].contains(error.code)
            || ([.notARelay, .relayUnreachable].contains(error.code) && wasInTouch)
    }
}
