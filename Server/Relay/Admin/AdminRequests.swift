internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import Hummingbird
internal import RelayLog

/// A JSON body of an operator's request. Unknown members are refused, because a misspelt `dryRun` must not purge.
protocol AdminRequest: Decodable {
    static var members: Set<String> { get }
}

/// The properties of a token to create.
struct TokenRequest: AdminRequest {
    static let members: Set = ["label", "space", "scope", "lifetimeSeconds"]

    var label: String?
    var space: String?
    var scope: String
    /// Without it the token is valid until it is revoked.
    var lifetimeSeconds: Int64?

    /// Refuses invalid values. The longest lifetime is a hundred years.
    func checked() throws -> (label: String, space: SpaceName?, scope: TokenScope, lifetimeMilliseconds: Int64?) {
        let label = label ?? ""
        let isPrintable = !label.unicodeScalars.contains { $0.properties.generalCategory == .control }
        guard label.unicodeScalars.count <= AdminLimits.labelCharacters, isPrintable else {
            throw ProblemResponse.badRequest("label has more than \(AdminLimits.labelCharacters) characters, or a control character")
        }
        guard let scope = TokenScope(rawValue: scope) else {
            throw ProblemResponse.badRequest("scope is unknown", hint: "Send read, write or admin")
        }
        let name = try space.map { text in
            guard let name = SpaceName(text) else { throw ProblemResponse.badRequest("space is not a valid space name") }
            return name
        }
        return (label, name, scope, try lifetimeSeconds.map { try AdminLimits.milliseconds($0, "lifetimeSeconds", from: 1) })
    }
}

/// The options of a purge.
struct PurgeRequest: AdminRequest {
    static let members: Set = ["dryRun", "keepSeconds", "force"]

    /// Only reports what would be dropped.
    var dryRun: Bool?
    /// Younger entries are kept; the default is a week, or 0 with `force`.
    var keepSeconds: Int64?
    /// Also drops entries that live replicas have not acknowledged.
    var force: Bool?

    func checked() throws -> PurgeRules {
        try .asked(keep: keepSeconds.map { try AdminLimits.milliseconds($0, "keepSeconds", from: 0) }, isForced: force ?? false)
    }
}

enum AdminLimits {
    /// Bytes of an operator's request.
    static let bodyBytes = 16 << 10
    /// Characters of a token's label.
    static let labelCharacters = 128
    /// The default number of entries in a list, and the highest.
    static let listed = 50
    static let listedAtMost = 200
    /// A hundred years, in seconds.
    static let seconds: Int64 = 3_155_760_000

    static func milliseconds(_ value: Int64, _ name: String, from least: Int64) throws -> Int64 {
        guard (least...seconds).contains(value) else {
            throw ProblemResponse.badRequest("\(name) is not a number from \(least) to \(seconds)")
        }
        return value * 1000
    }
}

extension BodyReader {
    /// Reads a small JSON object. Throws 400, 413 or 415.
    func object<Value: AdminRequest & Sendable>(_ type: Value.Type, of request: Request) async throws -> Value {
        try request.requireContentType(Endpoints.MediaType.json)
        return try await withBody(of: request, limit: AdminLimits.bodyBytes) { bytes in
            do {
                let decoder = JSONDecoder()
                let unknown = Set(try decoder.decode(Members.self, from: Data(bytes)).names).subtracting(Value.members)
                guard unknown.isEmpty else { throw ProblemResponse.badRequest("The body has unknown members") }
                return try decoder.decode(Value.self, from: Data(bytes))
            } catch is DecodingError {
                throw ProblemResponse.badRequest("The body is not the expected JSON object", hint: "See /openapi.json")
            }
        }
    }

    /// The names of an object's members.
    private struct Members: Decodable {
        var names: [String]

        struct Name: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }

            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: Name.self)
            names = try members.allKeys.map { name in
                // A null could mean "no limit" or a forgotten value, so it is refused.
                guard try !members.decodeNil(forKey: name) else {
                    throw DecodingError.valueNotFound(String.self, .init(codingPath: [name], debugDescription: "null"))
                }
                return name.stringValue
            }
        }
    }
}

extension Request {
    /// A space's name from the query; nil if there is none.
    func spaceName(_ name: String) throws -> SpaceName? {
        try uri.queryParameters.get(name).map { text in
            guard let space = SpaceName(text) else { throw ProblemResponse.badRequest("\(name) is not a valid space name") }
            return space
        }
    }

    /// The requested number of list entries.
    func listed() throws -> Int {
        Int(min(try number(Endpoints.Query.limit) ?? Int64(AdminLimits.listed), Int64(AdminLimits.listedAtMost)))
    }
}
