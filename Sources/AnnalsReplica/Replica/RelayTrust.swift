package import AnnalsSchema

/// Whom a replica trusts at its relay's https address; the store remembers it.
///
///     let trust = RelayTrust(caFile: "/etc/shop/relay.pem")
///     let address = try SpaceAddress("shop", at: "https://relay.example.org", as: "till 3", trust: trust)
public struct RelayTrust: Sendable, Hashable {
    /// A PEM file of certificates to trust instead of the system's; an absolute path.
    public var caFile: String?
    /// The SHA-256 of keys of which the relay must have one, as `sha256//` and base64; empty: any.
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
