internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Foundation
internal import Hummingbird
internal import Logging
internal import RelayLog
internal import Synchronization

/// The context of one request.
struct RelayRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    private let sender = Sender()
    /// The address of the client; empty if unknown. Behind a trusted proxy it is what the proxy says.
    var address: String
    /// The address at the other end of the connection; empty if unknown.
    let peer: String
    /// The request's id in the answer and in the log.
    let requestID: String

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        peer = source.channel.remoteAddress?.ipAddress ?? ""
        address = peer
        // Hummingbird stores its id only in the logger, and a log handler without metadata drops it.
        requestID = source.logger[metadataKey: "hb.request.id"].map { "\($0)" } ?? RequestID().description
    }

    /// The copies of a context share the sender: the outermost middleware logs it, and an inner one checks its token.
    private final class Sender: Sendable {
        let access = Mutex(Access.none)
    }

    /// The permissions of the sender.
    var access: Access {
        get { sender.access.withLock { $0 } }
        set { sender.access.withLock { $0 = newValue } }
    }

    /// The permissions of a sender.
    enum Access: Sendable {
        case none
        /// The relay is open.
        case everything
        case token(TokenGrant)
        case webToken(WebTokenGrant)

        func allows(_ scope: TokenScope, in space: SpaceName) -> Bool {
            switch self {
            case .none: false
            case .everything: true
            case .token(let grant): grant.allows(scope, in: space)
            case .webToken(let grant): grant.allows(scope, in: space)
            }
        }

        /// The owner of the replicas that the sender pushes as; nil on an open relay.
        var owner: ReplicaOwner? {
            switch self {
            case .none, .everything: nil
            case .token(let grant): .token(grant.holder)
            case .webToken(let grant): .subject(grant.subject, issuer: grant.issuer)
            }
        }

        /// When it expires, in milliseconds since 1970; nil: it does not.
        var expires: Int64? {
            switch self {
            case .none, .everything: nil
            case .token(let grant): grant.expires
            case .webToken(let grant): grant.expires
            }
        }
    }

    /// The key of the sender's rate limit.
    var rateKey: RateLimit.Key {
        switch access {
        case .none, .everything: .address(address)
        case .token(let grant): .token(grant.id)
        case .webToken(let grant): .subject(grant.subject)
        }
    }

    /// The sender of the request, for the shares of common resources.
    func taker(_ space: SpaceName? = nil) -> Taker {
        Taker(credential: access.owner, space: space, network: PeerNetwork.name(of: address))
    }

    /// The sender's name in the audit log.
    var operatorName: Operator {
        switch access {
        case .none, .everything: .anyone
        case .token(let grant): .token(grant.id)
        case .webToken(let grant): .subject(grant.subject)
        }
    }

    /// The one space that the sender can administer; nil: all spaces.
    func administeredSpace() throws -> SpaceName? {
        switch access {
        case .everything: return nil
        case .token(let grant) where grant.scope >= .admin: return grant.space
        case .webToken(let grant) where grant.everywhere == .admin: return nil
        case .webToken(let grant) where grant.spaces.values.contains(.admin):
            let spaces = grant.spaces.filter { $0.value == .admin }
            guard let space = spaces.first?.key, spaces.count == 1 else {
                throw ProblemResponse(
                    .notPermitted, detail: "The token administers \(spaces.count) spaces",
                    hint: "Use a token that administers one space or all spaces")
            }
            return space
        case .none, .token, .webToken:
            throw ProblemResponse(.notPermitted, detail: "This needs the scope admin", hint: "Ask the relay's operator for a token")
        }
    }

    enum ListedSpaces {
        case all
        case only(SpaceName)
        /// A space that the sender does not administer is treated as missing.
        case none
    }

    /// The spaces in a list, by the sender's permissions and the query.
    func listedSpace(_ request: Request) throws -> ListedSpaces {
        let administered = try administeredSpace()
        let asked = try request.spaceName(Endpoints.Query.space)
        if let administered, let asked, asked != administered { return .none }
        return (asked ?? administered).map { .only($0) } ?? .all
    }

    /// The space in the URL, if the sender has this permission.
    ///
    /// A forbidden space and a missing one get the same answer, before any lookup.
    func space(for scope: TokenScope) throws -> SpaceName {
        guard let name = parameters.get("space").flatMap({ SpaceName($0) }) else {
            throw ProblemResponse.badRequest(
                "The space in the URL is not a valid space name", hint: "Names have 1 to 64 letters, digits, dots, underscores and hyphens")
        }
        guard access.allows(scope, in: name) else {
            let isForAnother = !access.allows(.read, in: name)
            throw ProblemResponse(
                .notPermitted,
                detail: isForAnother
                    ? "The access token is not for the space \(name)" : "This needs the scope \(scope.rawValue) in the space \(name)",
                hint: "Ask the relay's operator for a token")
        }
        return name
    }
}

extension HTTPField.Name {
    // Constants of this project; all are valid names.
    static let lineage = HTTPField.Name(Endpoints.Header.lineage)!
    static let seen = HTTPField.Name(Endpoints.Header.seen)!
    static let replica = HTTPField.Name(Endpoints.Header.replica)!
    static let replicaName = HTTPField.Name(Endpoints.Header.name)!
    static let digest = HTTPField.Name(Endpoints.Header.digest)!
    static let position = HTTPField.Name(Endpoints.Header.position)!
    static let partDigest = HTTPField.Name(Endpoints.Header.partDigest)!
    static let offset = HTTPField.Name(Endpoints.Header.offset)!
    static let snapshot = HTTPField.Name(Endpoints.Header.snapshot)!
    static let time = HTTPField.Name(Endpoints.Header.time)!
    static let requestID = HTTPField.Name("X-Request-ID")!
    static let forwardedFor = HTTPField.Name("X-Forwarded-For")!
    static let lastEventID = HTTPField.Name("Last-Event-ID")!
    static let accelBuffering = HTTPField.Name("X-Accel-Buffering")!
}

extension Request {
    /// The lineage that the sender knows, if it names one.
    func lineage() throws -> Lineage? {
        try identifier(.lineage)
    }

    /// What the sender has seen of the log, as far as it says so.
    func seen() throws -> LogMark? {
        let lineage = try lineage()
        guard let text = headers[.seen] else { return lineage.map { LogMark(lineage: $0) } }
        guard let mark = LogMark(lineage: lineage ?? Lineage(high: 0, low: 0), headerValue: text) else {
            throw ProblemResponse.badRequest("The header \(HTTPField.Name.seen.canonicalName) is not a position and a digest")
        }
        return lineage == nil ? nil : mark
    }

    /// The same with the sender's replica id.
    func mark() throws -> LogMark? {
        var mark = try seen()
        mark?.replica = try replica()
        return mark
    }

    /// The id of the sending replica, if it names one.
    func replica() throws -> ReplicaID? {
        try identifier(.replica)
    }

    /// The name that the replica gives itself.
    var replicaName: String? {
        headers[.replicaName]?.removingPercentEncoding.map(Self.printable)
    }

    /// The sending program, if it names one.
    var program: String? {
        headers[.userAgent].map(Self.printable)
    }

    private static func printable(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.filter { $0.properties.generalCategory != .control }))
    }

    private func identifier<Kind>(_ name: HTTPField.Name) throws -> Identifier<Kind>? {
        guard let text = headers[name] else { return nil }
        guard let identifier = Identifier<Kind>(text) else {
            throw ProblemResponse.badRequest("The header \(name.canonicalName) is not a UUID")
        }
        return identifier
    }

    /// A non-negative integer from the query; nil if it is missing.
    func number(_ name: String) throws -> Int64? {
        guard let text = uri.queryParameters.get(name) else { return nil }
        guard let number = Int64(text), number >= 0, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw ProblemResponse.badRequest("\(name) is not an integer of 0 or more")
        }
        return number
    }

    /// Refuses a body of another type, or with a Content-Encoding.
    func requireContentType(_ expected: String) throws {
        if let encoding = headers[.contentEncoding], encoding.lowercased() != "identity" {
            throw ProblemResponse.unsupportedMediaType(expected: expected + ", without Content-Encoding")
        }
        guard let type = headers[.contentType] else { throw ProblemResponse.unsupportedMediaType(expected: expected) }
        if type == expected { return }
        // Parameters and case are ignored.
        guard type.prefix(while: { $0 != ";" }).lowercased().filter({ $0 != " " }) == expected else {
            throw ProblemResponse.unsupportedMediaType(expected: expected)
        }
    }

    /// The Content-Length of the body, if there is one. Throws 413 above the limit.
    func announcedLength(limit: Int64) throws -> Int64? {
        guard let text = headers[.contentLength], let length = Int64(text) else { return nil }
        guard length >= 0 else { throw ProblemResponse.badRequest("Content-Length is not a number of bytes") }
        guard length <= limit else { throw ProblemResponse(.tooLarge, detail: "The limit for this body is \(limit) bytes") }
        return length
    }
}
