internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird

/// A file of the operator's page. All files are part of the program. They reveal nothing about this relay except
/// whether it requires tokens.
///
/// The page asks for an admin token and sends it in a header like a replica, never in a URL or a cookie. So no other
/// page can make a browser send it. The page loads nothing from other hosts.
struct PageFile: Sendable {
    let path: String
    let mediaType: String
    let bytes: [UInt8]
    private let tag: String

    private init(_ path: String, _ mediaType: String, _ bytes: [UInt8]) {
        self.path = path
        self.mediaType = mediaType
        self.bytes = bytes
        tag = "\"\(Digest.sha256(bytes[...]).description.prefix(32))\""
    }

    static func routes(isOpen: Bool) -> Routes.Table {
        all(isOpen: isOpen).map { file in
            let handler: Routes.Handler = { request, _ in file.answer(request) }
            return (file.path, [(.get, handler)])
        }
    }

    static func all(isOpen: Bool) -> [PageFile] {
        let script = "text/javascript; charset=utf-8"
        func file(_ name: String, _ mediaType: String, _ bytes: [UInt8]) -> PageFile {
            PageFile("\(Endpoints.page)/\(name)", mediaType, bytes)
        }
        return [
            PageFile(Endpoints.page, "text/html; charset=utf-8", page(isOpen: isOpen)),
            file("style.css", "text/css; charset=utf-8", PackageResources.style_css),
            file("icon.svg", "image/svg+xml", PackageResources.icon_svg),
            file("main.js", script, PackageResources.main_js),
            file("relay.js", script, PackageResources.relay_js),
            file("elements.js", script, PackageResources.elements_js),
            file("spaces.js", script, PackageResources.spaces_js),
            file("timeline.js", script, PackageResources.timeline_js),
            file("tokens.js", script, PackageResources.tokens_js),
            file("audit.js", script, PackageResources.audit_js),
        ]
    }

    /// An open relay requires no token, so the page must not ask for one.
    private static func page(isOpen: Bool) -> [UInt8] {
        let text = String(decoding: PackageResources.index_html, as: UTF8.self)
        return Array((isOpen ? text.replacing("data-access=\"token\"", with: "data-access=\"open\"") : text).utf8)
    }

    func answer(_ request: Request) -> Response {
        // The page refers to its files by relative URLs, so that it also works under a path prefix of a proxy.
        if request.uri.path.hasSuffix("/") {
            return Response(status: .permanentRedirect, headers: [.location: "../\(path.dropFirst())"])
        }
        var headers = Self.headers
        headers[.eTag] = tag
        headers[.contentType] = mediaType
        if request.headers[.ifNoneMatch] == tag { return Response(status: .notModified, headers: headers) }
        return Response(status: .ok, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    /// The page can run only its own files, connect only to this relay, and cannot be framed by another page.
    private static let headers: HTTPFields = [
        .cacheControl: "no-cache", .contentSecurityPolicy: policy, .xContentTypeOptions: "nosniff", .xFrameOptions: "DENY",
        .referrerPolicy: "no-referrer",
    ]

    private static let policy = """
        default-src 'self'; img-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; object-src 'none'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """
}

extension HTTPField.Name {
    static let xFrameOptions = HTTPField.Name("X-Frame-Options")!
    static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
}
