/// Colours for a terminal. Without them the text is unchanged.
struct Style: Sendable {
    var isColoured: Bool

    enum Colour: String, Sendable {
        case bold = "1"
        case dim = "2"
        case red = "31"
        case green = "32"
        case yellow = "33"
        case cyan = "36"
    }

    func callAsFunction(_ colour: Colour, _ text: String) -> String {
        isColoured ? "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" : text
    }

    static let plain = Style(isColoured: false)
}
