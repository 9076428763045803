/// The position of an entry in the log of a space: 1, 2, 3, … without gaps. Zero is the position before the first
/// entry.
public struct Position: RawRepresentable, Hashable, Comparable, Codable, Sendable {
    public var rawValue: Int64

    public init(rawValue: Int64) { self.rawValue = rawValue }
    public init(_ rawValue: Int64) { self.rawValue = rawValue }

    public static let zero = Position(0)
    /// Of the entry with which a space begins: its schema.
    package static let first = Position(1)
    public var next: Position { Position(rawValue + 1) }

    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    public func advanced(by count: Int) -> Position { Position(rawValue + Int64(count)) }
}

extension Position: CustomStringConvertible {
    public var description: String { String(rawValue) }
}

/// The number of a transaction that a replica pushed: 1, 2, 3, … without gaps. Zero is the number before the first one.
package struct Counter: RawRepresentable, Hashable, Comparable, Codable, Sendable {
    package var rawValue: Int64

    package init(rawValue: Int64) { self.rawValue = rawValue }
    package init(_ rawValue: Int64) { self.rawValue = rawValue }

    package static let zero = Counter(0)
    package var next: Counter { Counter(rawValue + 1) }

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension Counter: CustomStringConvertible {
    package var description: String { String(rawValue) }
}
