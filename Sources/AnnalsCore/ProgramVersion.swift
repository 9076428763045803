/// Which release this is.
public enum ProgramVersion {
    public static let text = "0.1.0"
    /// How a program names itself to a relay, which shows it to its operator.
    public static let userAgent = "annals/\(text)"
}
