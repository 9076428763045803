/// Text of a client in a line of the log.
///
/// A client chooses its program's name and the space in a URL. In a line of `name=value` pairs a space or an equals sign
/// would let it write pairs of its own, and a long text would fill the log.
enum LogText {
    private static let mostBytes = 64

    /// At most 64 bytes of the text. Everything except plain letters, digits and `-._~/:@+;,()*` is percent-encoded.
    static func of(_ text: String) -> String {
        var result = ""
        for byte in text.utf8.prefix(mostBytes) {
            if isPlain(byte) {
                result.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                result += "%" + (digits.count < 2 ? "0" : "") + digits
            }
        }
        return text.utf8.count > mostBytes ? result + "…" : result
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: others.contains(byte)
        }
    }

    private static let others = Set("-._~/:@+;,()*".utf8)
}
