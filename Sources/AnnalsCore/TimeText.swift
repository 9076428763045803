/// A length of time as people write it: `45s`, `90m`, `12h`, `30d`, `2w`.
package enum TimeText {
    private static let units: [(name: Character, milliseconds: Int64)] = [
        ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000),
    ]

    /// nil when the text is another, or more than an Int64 of milliseconds.
    package static func milliseconds(_ text: String) -> Int64? {
        guard let unit = text.last.flatMap({ last in units.first { $0.name == last } }), let number = Int64(text.dropLast()), number > 0
        else {
            return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
        return overflow ? nil : product
    }

    /// In the largest unit that divides it; parts of a second are left out.
    package static func text(milliseconds: Int64) -> String {
        let unit = units.first { milliseconds > 0 && milliseconds.isMultiple(of: $0.milliseconds) }
        return unit.map { "\(milliseconds / $0.milliseconds)\($0.name)" } ?? "\(milliseconds / 1000)s"
    }
}
