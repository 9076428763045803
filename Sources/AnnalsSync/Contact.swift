import AnnalsCore

/// Whether the relay answers, as one who watches it knows: tells when that changes, and whether an error is one that
/// passes by itself.
struct Contact {
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

    /// The exchange failed, for a reason that passes.
    mutating func failed() -> Change? {
        defer { state = .away }
        return state == .away ? nil : .lost
    }

    /// What is no relay at first is a wrong address. Later it is a network that shows its own page for a while, or a certificate
    /// that somebody is about to renew. A schema that the space refuses is about to be changed, here or in the space: meanwhile what is
    /// written here is captured.
    func passes(_ error: AnnalsError) -> Bool {
        error.isRetryable || error.code == .schemaRefused || ([.notARelay, .relayUnreachable].contains(error.code) && wasInTouch)
    }
}
