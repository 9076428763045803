package import AnnalsSchema

/// The certificates and keys that a replica trusts at its relay's https address. The store remembers them.
///
///     let trust = RelayTrust(caFile: "/etc/shop/relay.pem")
///     let address = try SpaceAddress("shop", at: "https://relay.example.org", as: "till 3", trust: trust)
public struct RelayTrust: Sendable, Hashable {
    /// A PEM file with certificates to trust instead of those of the system. An absolute path.
    public var caFile: String?
    /// SHA-256 hashes of keys, as `sha256//` and base64. The relay must have one of these keys. Empty: any key.
    public var pins: [String]

    public init(caFile: String? = nil, pins: [String] = []) {
        self.caFile = caFile
        self.pins = pins
    }

    package init(_ facts: Meta.Facts) {
        self.init(caFile: facts.text(.caFile), pins: facts.text(.pins)?.split(separator: "\n").map(String.init) ?? [])
    }

    package func save(_ meta: Meta) throws {
        try meta.set(.caFile, caFile)
        try meta.set(.pins, pins.isEmpty ? nil : pins.joined(separator: "\n"))
    }
}
