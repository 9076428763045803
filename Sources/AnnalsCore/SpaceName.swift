/// The name of a space: 1 to 64 of `A–Z a–z 0–9 . _ -`.
///
///     guard let space = SpaceName("shop-berlin") else { return }
public struct SpaceName: Hashable, Sendable, CustomStringConvertible {
    public let description: String

    /// nil if the text has another character, is empty, is longer than 64, or is `.` or `..`, which URL normalization
    /// removes.
    public init?(_ text: String) {
        let allowed = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard allowed, (1...64).contains(text.utf8.count), text != ".", text != ".." else { return nil }
        description = text
    }
}
