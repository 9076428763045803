internal import AnnalsCore

/// The address of a relay: `127.0.0.1:8640`, `[::1]:8640`, `relay.example.org:0`.
package struct ListenAddress: Sendable, Hashable {
    /// A host name or an IP address without brackets.
    package var host: String
    /// 0 selects a free port.
    package var port: Int
    /// Whether connections are encrypted.
    package var usesTLS = false

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `HOST:PORT`. Throws `AnnalsError` with `.configuration`.
    package init(_ text: String) throws {
        let hint = "Write HOST:PORT, as in 127.0.0.1:8640 or [::1]:8640; port 0 selects a free port"
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw AnnalsError(.configuration, operation: "relay", "\"\(text)\" is not a listen address", hint: hint)
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            throw AnnalsError(.configuration, operation: "relay", "\"\(text)\" is an IPv6 address without brackets", hint: hint)
        }
        guard !host.isEmpty else {
            throw AnnalsError(.configuration, operation: "relay", "\"\(text)\" has no host", hint: hint)
        }
        self.init(host: String(host), port: Int(port))
    }

    /// Whether only programs on this machine can connect.
    package var isLoopback: Bool {
        if host.lowercased() == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    /// The URL for clients.
    package var url: String {
        "\(usesTLS ? "https" : "http")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}
