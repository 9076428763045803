/// A version of an app's schema, in the usual order of versions: `2.0.0` before `2.0.1` before `10.0.0`.
///
///     static let versionIdentifier = SchemaVersion(2, 1)
public struct SchemaVersion: Hashable, Comparable, Codable, Sendable {
    public let major: Int
    public let minor: Int
    public let patch: Int

    public init(_ major: Int, _ minor: Int = 0, _ patch: Int = 0) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    public static func < (one: Self, other: Self) -> Bool {
        (one.major, one.minor, one.patch) < (other.major, other.minor, other.patch)
    }
}

extension SchemaVersion: LosslessStringConvertible {
    public var description: String { "\(major).\(minor).\(patch)" }

    /// nil unless the text is three numbers separated by points.
    public init?(_ description: String) {
        let numbers = description.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 3, let major = numbers[0], let minor = numbers[1], let patch = numbers[2] else { return nil }
        self.init(major, minor, patch)
    }
}
