internal import AnnalsCore
internal import AnnalsWire
internal import Foundation
internal import Hummingbird
internal import RelayLog

/// A JSON body that an operator sends. Members that nobody knows are refused: a misspelt `dryRun` must not purge.
protocol AdminRequest: Decodable {
    static var members: Set<String> { get }
}

/// What a token to be made is for.
struct TokenRequest: AdminRequest {
    static let members: Set = ["label", "space", "scope", "lifetimeSeconds"]

    var label: String?
    var space: String?
    var scope: String
    /// Without it the token is valid until it is revoked.
    var lifetimeSeconds: Int64?

    /// Refuses what cannot be; a hundred years are for ever enough.
    func checked() throws -> (label: String, space: SpaceName?, scope: TokenScope, lifetimeMilliseconds: Int64?) {
        let label = label ?? ""
        let isPrintable = !label.unicodeScalars.contains { $0.properties.generalCategory == .control }
        guard label.unicodeScalars.count <= AdminLimits.labelCharacters, isPrintable else {
            throw ProblemResponse.badRequest("label has more than \(AdminLimits.labelCharacters) characters, or one that cannot be printed")
        }
        guard let scope = TokenScope(rawValue: scope) else {
            throw ProblemResponse.badRequest("scope is none that is known", hint: "Send read, write or admin")
        }
        let name = try space.map { text in
            guard let name = SpaceName(text) else { throw ProblemResponse.badRequest("space is not a space's name") }
            return name
        }
        return (label, name, scope, try lifetimeSeconds.map { try AdminLimits.milliseconds($0, "lifetimeSeconds", from: 1) })
    }
}

/// What of a log may go.
struct PurgeRequest: AdminRequest {
    static let members: Set = ["dryRun", "keepSeconds", "force"]

    /// Only says what would go.
    var dryRun: Bool?
    /// What is younger stays; without it a week, or nothing with `force`.
    var keepSeconds: Int64?
    /// Also what live replicas have not taken in.
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
    /// Entries of a list where none are asked for, and the most that may be.
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
                guard unknown.isEmpty else { throw ProblemResponse.badRequest("The body has members that are not known here") }
                return try decoder.decode(Value.self, from: Data(bytes))
            } catch is DecodingError {
                throw ProblemResponse.badRequest("The body is not the JSON object that is taken here", hint: "See /openapi.json")
            }
        }
    }

    /// The names in an object, whatever their values.
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
                // A null could mean that there is no limit, or that somebody forgot one.
                guard try !members.decodeNil(forKey: name) else {
                    throw DecodingError.valueNotFound(String.self, .init(codingPath: [name], debugDescription: "null"))
                }
                return name.stringValue
            }
        }
    }
}

extension Request {
    /// A space's name from the query; nil where there is none.
    func spaceName(_ name: String) throws -> SpaceName? {
        try uri.queryParameters.get(name).map { text in
            guard let space = SpaceName(text) else { throw ProblemResponse.badRequest("\(name) is not a space's name") }
            return space
        }
    }

    /// How many entries of a list are asked for.
    func listed() throws -> Int {
        Int(min(try number(Endpoints.Query.limit) ?? Int64(AdminLimits.listed), Int64(AdminLimits.listedAtMost)))
    }
}
