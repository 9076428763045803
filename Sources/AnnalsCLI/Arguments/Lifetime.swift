import ArgumentParser

/// A length of time as people write it: `45s`, `90m`, `12h`, `30d`, `2w`.
struct Lifetime: ExpressibleByArgument, Equatable, Sendable {
    let milliseconds: Int64

    /// nil when the text is another, or more than an Int64 of milliseconds.
    init?(argument: String) {
        let units: [Character: Int64] = ["s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000]
        guard let unit = argument.last.flatMap({ units[$0] }), let number = Int64(argument.dropLast()), number > 0 else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: unit)
        guard !overflow else { return nil }
        milliseconds = product
    }

    /// A length of time in the largest unit that divides it.
    static func text(_ duration: Duration) -> String {
        let seconds = duration.components.seconds
        let unit = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60)].first { seconds > 0 && seconds.isMultiple(of: $0.1) }
        return unit.map { "\(seconds / $0.1)\($0.0)" } ?? "\(seconds)s"
    }
}
