import AnnalsCore
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

@Suite struct TokenStoreTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let database: RelayDatabase
    let tokens: TokenStore

    init() throws {
        directory = try TemporaryDirectory()
        database = try TestStorage.database(directory.path)
        tokens = TokenStore(database: database, clock: clock.clock)
    }

    func grant(_ secret: String) async throws -> TokenGrant? {
        if case .granted(let grant) = try await tokens.verify(secret) { grant } else { nil }
    }

    @Test func `a token is ann_ and 32 random bytes`() async throws {
        let (one, _) = try await tokens.create(scope: .read)
        let (two, _) = try await tokens.create(scope: .read)
        #expect(one != two && one.hasPrefix("ann_") && one.utf8.count == 4 + 43)
        #expect(one.dropFirst(4).allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") })
    }

    @Test func `only its hash is stored`() async throws {
        let (secret, _) = try await tokens.create(label: "till", scope: .read)
        let stored = try await database.storage.read { db in
            try db.rows("SELECT * FROM annals_tokens", []).map { "\($0)" }.joined()
        }
        #expect(!stored.contains(secret) && !stored.contains(secret.dropFirst(4)) && stored.contains("till"))
    }

    @Test func `it grants its scope and those below, in its space or in all`() async throws {
        let (all, _) = try await tokens.create(scope: .admin)
        let (one, _) = try await tokens.create(space: .shop, scope: .write)
        let everywhere = try #require(try await grant(all))
        let shop = try #require(try await grant(one))
        #expect(everywhere.allows(.admin, in: .other) && everywhere.allows(.read, in: .shop))
        #expect(shop.allows(.read, in: .shop) && shop.allows(.write, in: .shop) && !shop.allows(.admin, in: .shop))
        #expect(!shop.allows(.read, in: .other))
    }

    @Test func `what is not a token grants nothing`() async throws {
        let (secret, _) = try await tokens.create(scope: .admin)
        let long = String(repeating: "a", count: 9999)
        for wrong in ["", "ann_", "ann_x", String(secret.dropLast()), secret + "A", secret.lowercased(), long] {
            #expect(try await tokens.verify(wrong) == .unknown)
        }
    }

    @Test func `it ends at its time, also when it was believed a moment before`() async throws {
        let (secret, record) = try await tokens.create(scope: .read, lifetimeMilliseconds: 500)
        #expect(record.expires == clock.now + 500)
        #expect(try await grant(secret) != nil)
        clock.advance(milliseconds: 499)
        #expect(try await grant(secret) != nil)
        clock.advance(milliseconds: 1)
        #expect(try await tokens.verify(secret) == .expired)
    }

    @Test func `a life beyond all numbers is for ever`() async throws {
        let (secret, _) = try await tokens.create(scope: .read, lifetimeMilliseconds: .max)
        #expect(try await grant(secret) != nil)
    }

    @Test func `revoked here it ends at once, elsewhere within a second`() async throws {
        let (secret, record) = try await tokens.create(scope: .read)
        let elsewhere = TokenStore(database: try TestStorage.database(directory.path), clock: clock.clock)
        #expect(try await elsewhere.verify(secret) != .revoked)
        #expect(try await grant(secret) != nil)
        #expect(try await tokens.revoke(record.id))
        #expect(try await tokens.verify(secret) == .revoked)
        clock.advance(milliseconds: RelayLogLimits().tokenMilliseconds)
        #expect(try await elsewhere.verify(secret) == .revoked)
        #expect(try await tokens.revoke(record.id) == false)
        #expect(try await tokens.revoke(12345) == false)
    }

    @Test(.filesOnly) func `storage that does not answer is told as such, so that agents try again`() async throws {
        let (secret, record) = try await tokens.create(scope: .read)
        try database.close()
        await #expect(throws: RelayLogError.self) { try await tokens.verify(secret) }
        await #expect(throws: RelayLogError.self) { try await tokens.list() }
        await #expect(throws: RelayLogError.self) { try await tokens.list(of: .shop) }
        await #expect(throws: RelayLogError.self) { try await tokens.revoke(record.id) }
        await #expect(throws: RelayLogError.self) { try await tokens.create(scope: .read) }
    }

    @Test func `the list shows all but the secrets`() async throws {
        _ = try await tokens.create(label: "till", space: .shop, scope: .write, lifetimeMilliseconds: 1000)
        let (_, second) = try await tokens.create(scope: .admin)
        _ = try await tokens.revoke(second.id)
        let list = try await tokens.list()
        #expect(list.map(\.label) == ["till", ""])
        #expect(list.map(\.space) == [.shop, nil])
        #expect(list.map(\.scope) == [.write, .admin])
        #expect(list.map(\.expires) == [clock.now + 1000, nil])
        #expect(list.map(\.revoked) == [nil, clock.now])
    }

    @Test func `a row that this program does not understand grants nothing`() async throws {
        let (one, _) = try await tokens.create(scope: .read)
        let (two, _) = try await tokens.create(space: .shop, scope: .read)
        try await database.storage.write { db in
            try db.execute("UPDATE annals_tokens SET scope = 'emperor' WHERE id = 1", [])
            try db.execute("UPDATE annals_tokens SET space = 'no such/name' WHERE id = 2", [])
        }
        #expect(try await tokens.verify(one) == .unknown)
        #expect(try await tokens.verify(two) == .unknown)
    }

    @Test func `bytes are equal or not, whatever their length`() {
        #expect(TokenStore.isEqual([1, 2], [1, 2]))
        #expect(!TokenStore.isEqual([1, 2], [1, 3]) && !TokenStore.isEqual([1], [1, 2]) && TokenStore.isEqual([], []))
    }

    @Test func `a token that renews another is made whole, or not at all`() async throws {
        let (_, old) = try await tokens.create(label: "till", space: .shop, scope: .read, by: .commandLine(user: "ann"))
        let (secret, record) = try #require(try await tokens.renew(old.id, lifetimeMilliseconds: 1000, by: .commandLine(user: "ann")))
        let again = try #require(try await tokens.renew(record.id, by: .commandLine(user: "ann"))).record
        #expect(record.holder == old.id && again.holder == old.id && record.label == "till" && record.space == .shop)
        let granted = try await grant(secret)
        #expect(granted?.holder == old.id && granted?.scope == .read)
        #expect(try await tokens.list().map(\.holder) == [nil, old.id, old.id])
        #expect(try await tokens.renew(99, by: .commandLine(user: "ann")) == nil)
        #expect(try await tokens.revoke(old.id))
        // Its replicas may belong to other owners now.
        await #expect(throws: TokenStore.Refusal.isRevoked) { try await tokens.renew(old.id, by: .commandLine(user: "ann")) }
        #expect(try await tokens.list().count == 3)
        let lines = try await database.audit(limit: 9).reversed()
        #expect(lines.map(\.subject) == ["token 1 (till), read", "token 2 (till), read, renews 1", "token 3 (till), read, renews 2"])
    }
}
