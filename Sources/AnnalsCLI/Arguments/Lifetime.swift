import AnnalsCore
import ArgumentParser

/// A length of time as an argument: `45s`, `5m`, `12h`, `30d`, `2w`.
struct Lifetime: ExpressibleByArgument, Equatable, Sendable {
    let milliseconds: Int64

    /// nil if the text has another form, or if the milliseconds exceed an Int64.
    init?(argument: String) {
        guard let milliseconds = TimeText.milliseconds(argument) else { return nil }
        self.milliseconds = milliseconds
    }

    /// A length of time in the largest unit that divides it.
    static func text(_ duration: Duration) -> String {
        TimeText.text(milliseconds: duration.components.seconds * 1000)
    }
}
