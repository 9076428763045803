/// Whether a request over plain HTTP goes through a proxy that the environment names, by libcurl's own rules.
///
/// Over HTTPS a proxy only passes on what it cannot read, and libcurl may decide. Over plain HTTP it would get the request
/// itself with everything in it, so a request with a token must not go there.
struct ProxyChoice {
    var hasProxy: Bool

    init(for target: RequestTarget, environment: (String) -> String? = Security.variable) {
        // Not HTTP_PROXY: a web server gives that name to what a visitor sent.
        let proxy = environment("http_proxy") ?? environment("all_proxy") ?? environment("ALL_PROXY")
        let exceptions = environment("no_proxy") ?? environment("NO_PROXY") ?? ""
        hasProxy = proxy != nil && !Self.isExcepted(target.host, from: exceptions)
    }

    /// Names with everything below them, addresses as they are written, and `*`. A range of addresses is not known here: then the
    /// request is refused though curl would send it directly, which is the side to err on.
    private static func isExcepted(_ host: String, from list: String) -> Bool {
        let host = plain(host)
        return list.split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
            if entry == "*" { return true }
            let name = plain(String(entry.drop { $0 == "." }))
            return !name.isEmpty && (host == name || host.hasSuffix("." + name) && !host.allSatisfy { $0.isNumber || $0 == "." })
        }
    }

    private static func plain(_ host: String) -> String {
        var host = host.lowercased()[...]
        while host.last == "." { host = host.dropLast() }
        return host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host)
    }
}
