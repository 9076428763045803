internal import AnnalsCore

/// JSON Web Tokens of an identity provider, accepted besides the relay's own tokens.
///
///     configuration.webTokens = WebTokenSettings(
///         keys: "https://id.example.org/jwks.json", issuer: "https://id.example.org", audience: "annals")
package struct WebTokenSettings: Sendable, Hashable {
    /// The provider's public keys as a JSON Web Key Set: the path of a file, or an http or https URL.
    package var keys: String
    /// The required value of the claim `iss`.
    package var issuer: String
    /// The required value of the claim `aud`, or one of its values.
    package var audience: String
    /// The claim that lists spaces and scopes.
    package var claim: String
    /// The allowed difference between the provider's clock and this one, in seconds.
    package var leewaySeconds: Int

    package init(keys: String, issuer: String, audience: String, claim: String = "annals", leewaySeconds: Int = 60) {
        self.keys = keys
        self.issuer = issuer
        self.audience = audience
        self.claim = claim
        self.leewaySeconds = leewaySeconds
    }

    var isAddress: Bool { keys.hasPrefix("http://") || keys.hasPrefix("https://") }

    /// Throws `AnnalsError` with `.configuration`.
    func validate() throws {
        func require(_ condition: Bool, _ message: String, _ hint: String) throws {
            guard condition else { throw AnnalsError(.configuration, operation: "relay", message, hint: hint) }
        }
        try require(
            !keys.isEmpty, "web tokens need the identity provider's keys", "Set jwt.keys to a JWKS file or its http or https URL")
        try require(!issuer.isEmpty, "web tokens need an issuer", "Set jwt.issuer to the value of the claim iss")
        try require(!audience.isEmpty, "web tokens need an audience", "Set jwt.audience to the value of the claim aud for this relay")
        try require(!claim.isEmpty, "web tokens need a claim that lists spaces", "Set jwt.claim; the default is annals")
        try require(
            (0...3600).contains(leewaySeconds), "jwt.leeway-seconds is \(leewaySeconds)", "Set a number from 0 to 3600")
    }
}
