internal import AnnalsWire
internal import HTTPTypes
internal import RelayLog

/// What HTTP caches are told about the answers to pulls.
///
/// A full page can be kept: its entries stay the same until a void, and its head may be old. So its tag is a weak one. Any
/// other answer is a matter of the moment. Only the cache of the sender may keep a page. A shared cache has to ask with HEAD
/// whether the sender may read it, and which page it is now.
enum PageCaching {
    /// How long a cache may keep a full page.
    static let seconds = 86_400

    /// What the answer depends on, apart from the URL: the permission, and whether the sender has seen this log.
    static let vary = "Authorization, \(Endpoints.Header.lineage), \(Endpoints.Header.seen)"

    /// The entity tag of a full page; nil for any other page.
    static func tag(of outline: PageOutline) -> String? {
        outline.name.map { "W/\"\($0)\"" }
    }

    /// The headers of an answer with this page, or about it.
    static func headers(of outline: PageOutline) -> HTTPFields {
        var headers: HTTPFields = [.contentType: Endpoints.MediaType.page, .cacheControl: "no-store"]
        if let tag = tag(of: outline) {
            headers[.eTag] = tag
            headers[.cacheControl] = "private, max-age=\(seconds), immutable"
            headers[.vary] = vary
        }
        if let time = outline.page.relayTime { headers[.time] = String(time) }
        return headers
    }
}
