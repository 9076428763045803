/// Whether a request over plain HTTP goes through a proxy from the environment, by libcurl's own rules.
///
/// Over HTTPS a proxy cannot read what it forwards, so libcurl decides. Over plain HTTP a proxy would see the whole
/// request, so a request with a token must not use a proxy.
struct ProxyChoice {
    var hasProxy: Bool

    init(for target: RequestTarget, environment: (String) -> String? = Security.variable) {
        // HTTP_PROXY is not used, because a CGI server sets it from a header of its visitor.
        let proxy = environment("http_proxy") ?? environment("all_proxy") ?? environment("ALL_PROXY")
        let exceptions = environment("no_proxy") ?? environment("NO_PROXY") ?? ""
        hasProxy = proxy != nil && !Self.isExcepted(target.host, from: exceptions)
    }

    /// The list has names with all their subdomains, addresses as written, and `*`. Ranges of addresses are not
    /// supported: the request is then refused, although curl would send it directly. This is the safe side.
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
