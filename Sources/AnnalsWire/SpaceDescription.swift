public import AnnalsCore

/// A relay's description of a space, as JSON.
public struct SpaceDescription: Hashable, Codable, Sendable {
    public var space: String
    public var lineage: Lineage
    /// The newest position of the log.
    public var head: Position
    /// The oldest position after which the log can be pulled.
    public var horizon: Position
    /// The newest snapshot. nil if there is none.
    public var snapshot: Snapshot?
    /// The relay's clock, in milliseconds since 1970. nil if the relay did not send it.
    public var time: Int64?

    /// The rows of a space at one position, as a compressed SQLite file.
    public struct Snapshot: Hashable, Codable, Sendable {
        public var position: Position
        /// The size of the compressed file.
        public var bytes: Int64
        /// SHA-256 of the compressed file, hexadecimal.
        public var digest: String
        /// The log's running digest at the position (see `LogMark`), hexadecimal. nil if the relay does not know it.
        public var logDigest: String?

        public init(position: Position, bytes: Int64, digest: String, logDigest: String? = nil) {
            self.position = position
            self.bytes = bytes
            self.digest = digest
            self.logDigest = logDigest
        }
    }

    public init(space: SpaceName, lineage: Lineage, head: Position, horizon: Position, snapshot: Snapshot? = nil) {
        self.space = space.description
        self.lineage = lineage
        self.head = head
        self.horizon = horizon
        self.snapshot = snapshot
    }
}

/// The event that the event stream sends when the log grows: JSON in an event with the name `head`.
package struct HeadEvent: Hashable, Codable, Sendable {
    package static let name = "head"

    package var head: Position
    package var lineage: Lineage

    package init(head: Position, lineage: Lineage) {
        self.head = head
        self.lineage = lineage
    }
}

extension SpaceDescription {
    /// Refuses numbers that no relay can have, so that arithmetic with the others does not overflow.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        space = try container.decode(String.self, forKey: .space)
        lineage = try container.decode(Lineage.self, forKey: .lineage)
        head = try container.decodePosition(forKey: .head)
        horizon = try container.decodePosition(forKey: .horizon)
        snapshot = try container.decodeIfPresent(Snapshot.self, forKey: .snapshot)
        time = try container.decodeIfPresent(Int64.self, forKey: .time)
        if let time, !(-WireLimits.maximumMilliseconds...WireLimits.maximumMilliseconds).contains(time) {
            throw DecodingError.dataCorruptedError(forKey: .time, in: container, debugDescription: "not a valid time")
        }
    }
}

extension SpaceDescription.Snapshot {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        position = try container.decodePosition(forKey: .position)
        bytes = try container.decode(Int64.self, forKey: .bytes)
        digest = try container.decode(String.self, forKey: .digest)
        logDigest = try container.decodeIfPresent(String.self, forKey: .logDigest)
        guard bytes >= 0 else {
            throw DecodingError.dataCorruptedError(forKey: .bytes, in: container, debugDescription: "not a valid size")
        }
    }
}

extension KeyedDecodingContainer {
    fileprivate func decodePosition(forKey key: Key) throws -> Position {
        guard let position = Position(fromElsewhere: try decode(Position.self, forKey: key).rawValue) else {
            throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: "not a valid position")
        }
        return position
    }
}
