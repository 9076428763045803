import Foundation

/// The name of this machine.
enum HostName {
    static var current: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "unnamed" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return name.isEmpty ? "unnamed" : name
    }

    /// The name of a replica that was given none: the machine and the file without its folder, as in `laptop/shop.db`. Several stores of
    /// one machine then have different names.
    static func replica(at path: String, on host: String = current) -> String {
        let file = URL(fileURLWithPath: path).lastPathComponent
        return "\(part(host))/\(part(file))"
    }

    /// The relay keeps 128 characters of a name, without control characters.
    private static func part(_ text: String) -> String {
        let shown = text.unicodeScalars.filter { $0.properties.generalCategory != .control }
        return String(String(String.UnicodeScalarView(shown)).prefix(63))
    }
}
