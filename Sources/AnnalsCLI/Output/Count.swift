/// Numbers of things, with the thing's name in the right number.
enum Count {
    static func of(_ number: some BinaryInteger, _ thing: String) -> String {
        number == 1 ? "1 \(thing)" : "\(number) \(thing)s"
    }
}
