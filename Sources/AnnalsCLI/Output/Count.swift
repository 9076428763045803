/// A number with the name of the thing, in singular or plural.
enum Count {
    static func of(_ number: some BinaryInteger, _ thing: String) -> String {
        number == 1 ? "1 \(thing)" : "\(number) \(thing)s"
    }
}
