import AnnalsCore

/// New identities from the configuration's source of randomness.
struct NewIdentities: Sendable {
    let random: @Sendable () -> UInt64

    func next<Kind>() -> Identifier<Kind> {
        var source = Source(draw: random)
        return Identifier(using: &source)
    }

    private struct Source: RandomNumberGenerator {
        var draw: @Sendable () -> UInt64

        func next() -> UInt64 { draw() }
    }
}

extension Store.Configuration {
    var identities: NewIdentities { NewIdentities(random: random) }
}
