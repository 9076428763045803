import AnnalsStore
import ArgumentParser

/// How much history is kept, as people write it: a duration, `all`, or `default`.
enum KeptHistory: ExpressibleByArgument, Equatable, Sendable {
    case duration(Lifetime)
    case all
    /// What a store keeps that was given no rule.
    case usual

    init?(argument: String) {
        switch argument {
        case "all": self = .all
        case "default": self = .usual
        default:
            guard let duration = Lifetime(argument: argument) else { return nil }
            self = .duration(duration)
        }
    }
}

/// A share of the file, `1%` to `99%`.
struct Share: ExpressibleByArgument, Equatable, Sendable {
    let fraction: Double

    init?(argument: String) {
        let digits = argument.hasSuffix("%") ? argument.dropLast() : argument[...]
        guard let percent = Double(digits), percent > 0, percent < 100 else { return nil }
        fraction = percent / 100
    }
}
