/// Which release this is.
package enum ProgramVersion {
    package static let text = "0.1.0"
    /// How a program names itself to a relay, which shows it to its operator.
    package static let userAgent = "annals/\(text)"
}
