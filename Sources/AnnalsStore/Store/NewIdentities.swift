import AnnalsCore

extension Store.Configuration {
    /// A new identity from the configuration's source of randomness.
    func newIdentifier<Kind>() -> Identifier<Kind> {
        var source = Source(draw: random)
        return Identifier(using: &source)
    }

    private struct Source: RandomNumberGenerator {
        var draw: @Sendable () -> UInt64

        func next() -> UInt64 { draw() }
    }
}
