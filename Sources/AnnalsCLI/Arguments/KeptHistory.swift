import AnnalsStore
import ArgumentParser

/// How much history is kept, as an argument: a duration, `all` or `default`.
enum KeptHistory: ExpressibleByArgument, Equatable, Sendable {
    case duration(Lifetime)
    case all
    /// The rule of a store that was given none.
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

/// A fraction of the file, `1%` to `99%`.
struct Share: ExpressibleByArgument, Equatable, Sendable {
    let fraction: Double

    init?(argument: String) {
        let digits = argument.hasSuffix("%") ? argument.dropLast() : argument[...]
        guard let percent = Double(digits), percent > 0, percent < 100 else { return nil }
        fraction = percent / 100
    }
}
