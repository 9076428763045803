/// A duration in the form that users write: `45s`, `5m`, `12h`, `30d`, `2w`.
package enum TimeText {
    private static let units: [(name: Character, milliseconds: Int64)] = [
        ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000),
    ]

    /// nil if the text has another form, or if the milliseconds do not fit in an Int64.
    package static func milliseconds(_ text: String) -> Int64? {
        guard let unit = text.last.flatMap({ last in units.first { $0.name == last } }), let number = Int64(text.dropLast()), number > 0
        else {
            return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
        return overflow ? nil : product
    }

    /// The duration in the largest unit that divides it. Fractions of a second are dropped.
    package static func text(milliseconds: Int64) -> String {
        let unit = units.first { milliseconds > 0 && milliseconds.isMultiple(of: $0.milliseconds) }
        return unit.map { "\(milliseconds / $0.milliseconds)\($0.name)" } ?? "\(milliseconds / 1000)s"
    }
}
