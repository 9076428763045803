/// A violated law. It ends the run.
struct Violation: Error, Sendable {
    /// The law, in a few words that stay the same while a failure is shrunk.
    var law: String
    var text: String

    init(_ law: String, _ text: String) {
        self.law = law
        self.text = text
    }
}

extension Violation: CustomStringConvertible {
    var description: String { "\(law): \(text)" }
}
