import AnnalsCore
import Foundation
import HTTPTypes
import JWTKit
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// JSON Web Tokens of an identity provider: the accepted ones, and all refused ones.
@Suite struct WebTokenTests {
    let clock = TestClock()
    let provider: TestProvider

    init() { provider = TestProvider(clock) }

    private func refusal(_ token: String, _ verifier: WebTokenVerifier) async -> WebTokenRefusal? {
        do throws(WebTokenRefusal) {
            _ = try await verifier.verify(token)
            return nil
        } catch {
            return error
        }
    }

    @Test func `every asymmetric algorithm, each key by its name, amid keys for other purposes`() async throws {
        let keys = try await [TestProvider.es256("a"), TestProvider.es384("b"), TestProvider.eddsa("c")] + TestProvider.rsa("d")
        let others = [
            ["kty": "oct", "k": "c2VjcmV0", "kid": "e"], ["kty": "RSA", "use": "enc", "kid": "f", "n": "AQAB", "e": "AQAB"],
            ["kty": "XYZ", "kid": "g"], ["kty": "EC", "crv": "P-256", "kid": "h", "x": "AA", "y": "AA"],
        ]
        let verifier = try await PublishedKeys(TestProvider.set(keys, and: others)).verifier(clock)
        for key in keys {
            let grant = try await verifier.verify(try provider.token(key))
            #expect(grant.subject == "ann" && grant.allows(.write, in: .shop) && !grant.allows(.admin, in: .shop), "\(key.algorithm)")
            #expect(grant.expires == (provider.now + 660) * 1000)
        }
    }

    @Test func `a wrong signature, another's key, and a part that was changed`() async throws {
        let (key, other) = (try await TestProvider.es256("a"), try await TestProvider.es256("a"))
        let verifier = try await PublishedKeys(TestProvider.set([key])).verifier(clock)
        #expect(await refusal(try provider.token(other), verifier) == .signature)
        let good = try provider.token(key)
        let parts = good.split(separator: ".")
        let changed = try TestProvider.part(provider.claims(["annals": ["*": "admin"]]))
        #expect(await refusal("\(parts[0]).\(changed).\(parts[2])", verifier) == .signature)
        #expect(await refusal("\(parts[0]).\(parts[1]).AAAA", verifier) == .signature)
        #expect(await refusal("\(parts[0]).\(parts[1]).", verifier) == .signature)
        #expect(await refusal(good, verifier) == nil)
        // The good token is remembered now, and no other one.
        #expect(await refusal("\(parts[0]).\(changed).\(parts[2])", verifier) == .signature)
    }

    @Test func `none, and a secret made of the public key`() async throws {
        let rsa = try await TestProvider.rsa("a")
        let verifier = try await PublishedKeys(TestProvider.set([rsa[0]])).verifier(clock)
        let claims = try TestProvider.part(provider.claims())
        for name in ["none", "None", "NONE", "", "HS256", "HS512", "ML-DSA-65"] {
            let head = try TestProvider.part(["alg": name, "kid": "a"])
            for signature in ["", "AAAA"] { #expect(await refusal("\(head).\(claims).\(signature)", verifier) == .algorithm) }
        }
        let public64 = try #require(rsa[0].jwk["n"])
        let secret = try await JWTKeyCollection().add(hmac: HMACKey(from: public64), digestAlgorithm: .sha256, kid: "a").getKey(for: "a")
        let forged = TestProvider.Key(id: "a", algorithm: "HS256", signing: secret, jwk: [:])
        #expect(await refusal(try provider.token(forged), verifier) == .algorithm)
        #expect(await refusal(try provider.token(forged, header: ["alg": "RS256"]), verifier) == .signature)
        // A key is valid only for its own algorithm.
        let ec = try await TestProvider.es256("b")
        let both = try await PublishedKeys(TestProvider.set([rsa[0], ec])).verifier(clock)
        #expect(await refusal(try provider.token(ec, header: ["kid": "a"]), both) == .algorithm)
        #expect(await refusal(try provider.token(ec, header: ["alg": "ES384"]), both) == .algorithm)
        var named = rsa[0]
        named.jwk["alg"] = "PS512"
        let strict = try await PublishedKeys(TestProvider.set([named])).verifier(clock)
        #expect(await refusal(try provider.token(rsa[0]), strict) == .algorithm)
        #expect(await refusal(try provider.token(rsa[1]), strict) == nil)
    }

    @Test func `time: expired, not valid yet, without an end, and the leeway of a minute`() async throws {
        let key = try await TestProvider.eddsa("a")
        let verifier = try await PublishedKeys(TestProvider.set([key])).verifier(clock)
        let now = provider.now
        let cases: [([String: Any], WebTokenRefusal?)] = [
            (["exp": now - 61], .expired), (["exp": now - 60], .expired), (["exp": now - 59], nil), (["exp": Double(now) + 0.5], nil),
            (["exp": NSNull()], .missing("exp")), (["exp": "soon"], .malformed), (["exp": -1], .expired), (["exp": 1e300], nil),
            (["nbf": now + 61], .notYetValid), (["nbf": now + 60], nil), (["nbf": now - 5], nil),
        ]
        for (changes, expected) in cases { #expect(await refusal(try provider.token(key, changes), verifier) == expected, "\(changes)") }
        // A token that was accepted before expires too.
        let token = try provider.token(key)
        #expect(await refusal(token, verifier) == nil)
        clock.advance(milliseconds: 660_000 - 1)
        #expect(await refusal(token, verifier) == nil)
        clock.advance(milliseconds: 1)
        #expect(await refusal(token, verifier) == .expired)
    }

    @Test func `issuer, audience, subject and the claim that lists spaces`() async throws {
        let key = try await TestProvider.es256("a")
        let verifier = try await PublishedKeys(TestProvider.set([key])).verifier(clock)
        let cases: [([String: Any], WebTokenRefusal?)] = [
            (["iss": "https://evil.example.org"], .issuer), (["iss": NSNull()], .missing("iss")),
            (["iss": "https://id.example.org/"], .issuer),
            (["aud": "other"], .audience), (["aud": NSNull()], .missing("aud")), (["aud": ["x", "annals"]], nil),
            (["aud": [String]()], .missing("aud")),
            (["sub": NSNull()], .missing("sub")), (["sub": ""], .missing("sub")), (["sub": "a\nb"], .missing("sub")),
            (["annals": NSNull()], .missing("annals")), (["annals": "shop:write"], .missing("annals")), (["annals": 7], .missing("annals")),
            (["annals": [String: String]()], nil), (["iss": 5], .malformed),
        ]
        for (changes, expected) in cases { #expect(await refusal(try provider.token(key, changes), verifier) == expected, "\(changes)") }
    }

    @Test func `spaces and scopes as an object and as a list; what names none of either grants nothing`() async throws {
        let key = try await TestProvider.es256("a")
        let verifier = try await PublishedKeys(TestProvider.set([key])).verifier(clock, claim: "https://x.org/annals")
        func grant(_ claim: Any) async throws -> WebTokenGrant {
            try await verifier.verify(try provider.token(key, ["https://x.org/annals": claim, "annals": ["*": "admin"]]))
        }
        let object = try await grant(["shop": "write", "*": "read"])
        #expect(object.allows(.write, in: .shop) && object.allows(.read, in: .other) && !object.allows(.write, in: .other))
        let list = try await grant(["shop:write", "*:read", "shop:read"])
        #expect(list.spaces == object.spaces && list.everywhere == object.everywhere)
        let odd = try await grant(["shop", "shop:", ":write", "shop:write:admin", "shop:owner", "a b:write", "**:admin"])
        #expect(odd.everywhere == nil && odd.spaces.isEmpty)
        #expect(try await grant(["shop": "Write", "ca fé": "read"]).spaces.isEmpty)
    }

    @Test func `what is no token at all, and headers that ask for more`() async throws {
        let key = try await TestProvider.es256("a")
        let verifier = try await PublishedKeys(TestProvider.set([key])).verifier(clock)
        let good = try provider.token(key)
        for bad in [
            "..", "a.b.c", "....", good + ".", good + "=", good.replacing(".", with: ". "), String(repeating: "a.", count: 5000) + ".",
        ] {
            #expect(await refusal(bad, verifier) != nil, "\(bad.prefix(40))")
        }
        #expect(await refusal(try provider.token(key, header: ["crit": ["b64"], "b64": false]), verifier) == .algorithm)
        #expect(
            await refusal(try provider.token(key, header: ["jwk": key.jwk["x"] ?? "", "jku": "https://evil.example.org"]), verifier) == nil)
    }

    @Test func `the key must be named where there are two`() async throws {
        let (one, two) = (try await TestProvider.es256("a"), try await TestProvider.es256("b"))
        let unnamed = try provider.token(one, header: ["kid": NSNull()])
        #expect(await refusal(unnamed, try await PublishedKeys(TestProvider.set([one])).verifier(clock)) == nil)
        #expect(await refusal(unnamed, try await PublishedKeys(TestProvider.set([one, two])).verifier(clock)) == .keyNotNamed)
    }

    @Test func `a new key is found at once, a removed one no longer taken, and strangers cause one reading a minute`() async throws {
        let (old, new) = (try await TestProvider.es256("old"), try await TestProvider.eddsa("new"))
        let published = PublishedKeys(try TestProvider.set([old]))
        let verifier = try await published.verifier(clock)
        let token = try provider.token(old)
        #expect(await refusal(token, verifier) == nil)
        #expect(published.reads == 1)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        published.publish(try TestProvider.set([new]))
        #expect(await refusal(try provider.token(new), verifier) == nil)
        #expect(published.reads == 2)
        // Key ids that the provider was not asked for yet may be known later.
        #expect(await refusal(token, verifier) == .keysAway(retryAfterSeconds: 60))
        for number in 0..<20 {
            #expect(await refusal(try provider.token(old, header: ["kid": "k\(number)"]), verifier) == .keysAway(retryAfterSeconds: 60))
        }
        #expect(published.reads == 2)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        #expect(await refusal(token, verifier) == .unknownKey)
        #expect(published.reads == 3)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        for number in 0..<20 { _ = await refusal(try provider.token(old, header: ["kid": "k\(number)"]), verifier) }
        #expect(published.reads == 4)
    }

    @Test(arguments: [true, false])
    func `a key that took the place of another without a name of its own is found`(isNamed: Bool) async throws {
        let (old, new) = (try await TestProvider.es256("k"), try await TestProvider.es256("k"))
        let header: [String: Any] = isNamed ? [:] : ["kid": NSNull()]
        let published = PublishedKeys(try TestProvider.set([old]))
        let verifier = try await published.verifier(clock)
        #expect(await refusal(try provider.token(old, header: header), verifier) == nil)
        published.publish(try TestProvider.set([new]))
        // Too soon after the first reading. A token with an unknown key id gets the answer to wait.
        let soon: WebTokenRefusal = isNamed ? .signature : .keysAway(retryAfterSeconds: 60)
        #expect(await refusal(try provider.token(new, header: header), verifier) == soon)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        #expect(await refusal(try provider.token(new, header: header), verifier) == nil)
        #expect(published.reads == 2)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        #expect(await refusal(try provider.token(old, header: header), verifier) == .signature)
    }

    @Test func `many that ask for a new key at once wait for one reading`() async throws {
        let (old, new) = (try await TestProvider.es256("old"), try await TestProvider.es256("new"))
        let published = PublishedKeys(try TestProvider.set([old]))
        let verifier = try await published.verifier(clock)
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        published.publish(try TestProvider.set([old, new]))
        let token = try provider.token(new)
        let refusals = await withTaskGroup(of: WebTokenRefusal?.self) { group in
            for _ in 0..<50 { group.addTask { await refusal(token, verifier) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(refusals.allSatisfy { $0 == nil } && published.reads == 2)
    }

    @Test func `keys that cannot be read anew stay; those never read make the sender wait`() async throws {
        let (old, new) = (try await TestProvider.es256("old"), try await TestProvider.es256("new"))
        let published = PublishedKeys(nil)
        let verifier = try await published.verifier(clock)
        #expect(await refusal(try provider.token(old), verifier) == .keysAway(retryAfterSeconds: 60))
        clock.advance(milliseconds: KeySource.shortestMilliseconds)
        published.publish(try TestProvider.set([old]))
        #expect(await refusal(try provider.token(old), verifier) == nil)
        for junk in [nil, Array("<html>".utf8), Array(#"{"keys":[]}"#.utf8)] {
            clock.advance(milliseconds: KeySource.shortestMilliseconds)
            published.publish(junk)
            #expect(await refusal(try provider.token(new), verifier) == .keysAway(retryAfterSeconds: 60))
            #expect(await refusal(try provider.token(old), verifier) == nil)
        }
    }

    @Test func `keys are read anew after some hours also when nobody asks for others`() async throws {
        let key = try await TestProvider.es256("a")
        let published = PublishedKeys(try TestProvider.set([key]))
        let verifier = try await published.verifier(clock)
        clock.advance(milliseconds: KeySource.longestMilliseconds)
        let later = try TestProvider(clock).token(key)
        for _ in 0..<1000 where published.reads < 2 {
            #expect(await refusal(later, verifier) == nil)
            await Task.yield()
        }
        #expect(published.reads == 2)
    }
}
