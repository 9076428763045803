/// The version of this release.
package enum ProgramVersion {
    package static let text = "0.1.0"
    /// The name that a program sends to a relay. The relay shows it to its operator.
    package static let userAgent = "annals/\(text)"
}
