package import AnnalsCore
internal import Foundation
internal import Synchronization

/// The permissions of a token in its spaces; each scope includes those before it.
package enum TokenScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Describe, pull, watch, download snapshots.
    case read
    /// Also create the space, push and upload snapshots.
    case write
    /// Also actions that change a space for all replicas.
    case admin

    private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }

    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }
}

/// The permissions of a valid token.
package struct TokenGrant: Sendable, Hashable {
    package var id: Int64
    /// nil: all spaces.
    package var space: SpaceName?
    package var scope: TokenScope
    /// Milliseconds since 1970; nil: it does not expire.
    package var expires: Int64?
    /// The token that owns the replicas of this one: itself, or the token that it renews.
    package var holder: Int64

    package init(id: Int64, space: SpaceName?, scope: TokenScope, expires: Int64?, holder: Int64? = nil) {
        self.id = id
        self.holder = holder ?? id
        self.space = space
        self.scope = scope
        self.expires = expires
    }

    package func allows(_ needed: TokenScope, in space: SpaceName) -> Bool {
        (self.space == nil || self.space == space) && scope >= needed
    }
}

/// A token in the operator's view: without the secret. Only the secret's SHA-256 is stored.
package struct TokenRecord: Sendable, Hashable {
    package var id: Int64
    package var label: String
    package var space: SpaceName?
    package var scope: TokenScope
    /// Milliseconds since 1970, like the next two.
    package var created: Int64
    package var expires: Int64?
    package var revoked: Int64?
    /// The token that it renews, and whose replicas it shares; nil if it renews none.
    package var holder: Int64?
}

/// Bearer tokens: `ann_` and 32 random bytes in base64url, shown once.
///
/// Only the SHA-256 is stored. A secret of 256 random bits cannot be guessed, so a slow hash would add cost and no
/// safety. The lookup uses the hash, and the hashes are then compared in constant time.
package final class TokenStore: Sendable {
    private let database: RelayDatabase
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let cache = Mutex<[Digest: Cached]>([:])

    private struct Cached {
        var outcome: Outcome
        var until: Int64
    }

    package enum Outcome: Sendable, Hashable {
        case granted(TokenGrant)
        case expired
        case revoked
        case unknown
    }

    /// Why a token cannot be renewed.
    package enum Refusal: Error, Sendable, Hashable {
        /// A revoked token holds no replicas; another owner may have them.
        case isRevoked
    }

    static let prefix = "ann_"
    private static let secretCharacters = prefix.utf8.count + (secretByteCount * 8 + 5) / 6
    static let secretByteCount = 32

    package init(database: RelayDatabase, limits: RelayLogLimits = RelayLogLimits(), clock: RelayClock = .system) {
        self.database = database
        self.limits = limits
        self.clock = clock
    }

    /// Creates a token and returns its secret, which cannot be read again, with its record.
    ///
    /// - Parameters:
    ///   - space: nil means all spaces.
    ///   - lifetimeMilliseconds: nil means that it does not expire.
    ///   - by: who creates it, for the audit log.
    package func create(
        label: String = "", space: SpaceName? = nil, scope: TokenScope, lifetimeMilliseconds: Int64? = nil,
        by: Operator? = nil
    ) async throws -> (secret: String, record: TokenRecord) {
        let made = try await make(lifetimeMilliseconds, by: by) { _ in Plan(label: label, space: space, scope: scope) }
        guard let made else { throw RelayLogError.storage("a token was not stored") }
        return made
    }

    /// Creates a token with the space, scope, label and replicas of another one. Each of the two stays valid until it
    /// expires or is revoked.
    ///
    /// Returns nil if there is no token with this number. Throws `Refusal.isRevoked`.
    package func renew(
        _ id: Int64, lifetimeMilliseconds: Int64? = nil, by: Operator? = nil
    ) async throws -> (secret: String, record: TokenRecord)? {
        try await make(lifetimeMilliseconds, by: by) { db in
            let row = try db.row("SELECT \(Self.columns) FROM annals_tokens WHERE id = ?1" + db.lockingClause, [id])
            guard let old = try row.flatMap(Self.record) else { return nil }
            guard old.revoked == nil else { throw Refusal.isRevoked }
            return Plan(label: old.label, space: old.space, scope: old.scope, renews: id, holder: old.holder ?? id)
        }
    }

    /// The properties of a new token.
    private struct Plan {
        var label: String
        var space: SpaceName?
        var scope: TokenScope
        /// The token that it renews, and the one whose replicas it shares.
        var renews: Int64?
        var holder: Int64?
    }

    /// Creates a token in one transaction; nil if `plan` returns nil.
    private func make(
        _ lifetimeMilliseconds: Int64?, by: Operator?, _ plan: @escaping @Sendable (any LogConnection) throws -> Plan?
    ) async throws -> (secret: String, record: TokenRecord)? {
        var generator = SystemRandomNumberGenerator()
        let secret = Self.prefix + Base64URL.encode((0..<Self.secretByteCount).map { _ in UInt8.random(in: 0...255, using: &generator) })
        let hash = Self.hash(secret)
        let created = clock.wall()
        let expires = lifetimeMilliseconds.map { created.addingReportingOverflow($0) }.map { $0.overflow ? Int64.max : $0.partialValue }
        let entry = AuditEntry(.tokenCreate, by: by, space: nil, at: created)
        let record = try await writing { db -> TokenRecord? in
            guard let plan = try plan(db) else { return nil }
            let sql = """
                INSERT INTO annals_tokens(hash, label, space, scope, created, expires, holder) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                ON CONFLICT (hash) DO UPDATE SET label = excluded.label RETURNING id
                """
            let id = try db.integer(sql, [hash, plan.label, plan.space, plan.scope.rawValue, created, expires, plan.holder]) ?? 0
            var line = entry
            line?.space = plan.space
            let subject = Self.subject(id: id, label: plan.label) + ", \(plan.scope.rawValue)"
            try AuditStorage.add(
                line, subject: subject + (plan.renews.map { ", renews \($0)" } ?? ""), outcome: AuditEntry.done, in: db)
            return TokenRecord(
                id: id, label: plan.label, space: plan.space, scope: plan.scope, created: created, expires: expires, revoked: nil,
                holder: plan.holder)
        }
        return record.map { (secret, $0) }
    }

    /// The current permissions of a presented secret.
    package func verify(_ secret: String) async throws -> Outcome {
        // A string with a wrong length or prefix needs no database query.
        guard secret.utf8.count == Self.secretCharacters, secret.hasPrefix(Self.prefix) else { return .unknown }
        let hash = Self.hash(secret)
        let now = clock.monotonic()
        if let cached = cache.withLock({ $0[hash] }), cached.until > now { return aged(cached.outcome) }
        let outcome = try await lookUp(hash)
        if case .granted = outcome {
            cache.withLock { cache in
                if cache.count >= limits.tokensRemembered { cache.removeAll(keepingCapacity: true) }
                cache[hash] = Cached(outcome: outcome, until: now + limits.tokenMilliseconds)
            }
        }
        return aged(outcome)
    }

    /// All tokens, or only those for one space.
    package func list(of space: SpaceName? = nil) async throws -> [TokenRecord] {
        try await reading { db in
            guard let space else {
                return try db.rows("SELECT \(Self.columns) FROM annals_tokens ORDER BY id", []).compactMap(Self.record)
            }
            return try db.rows("SELECT \(Self.columns) FROM annals_tokens WHERE space = ?1 ORDER BY id", [space]).compactMap(Self.record)
        }
    }

    /// Revokes a token: at once in this process, and within `tokenMilliseconds` in others. Returns false if there is no
    /// token with this number, or if it was revoked already.
    ///
    /// - Parameters:
    ///   - space: revokes only a token for this one space.
    ///   - by: who does it, for the audit log.
    package func revoke(_ id: Int64, of space: SpaceName? = nil, by: Operator? = nil) async throws -> Bool {
        let now = clock.wall()
        let entry = AuditEntry(.tokenRevoke, by: by, space: space, at: now)
        let found = try await writing { db in
            let all = "UPDATE annals_tokens SET revoked = ?1 WHERE id = ?2 AND (revoked IS NULL OR revoked = ?1)"
            let row =
                if let space {
                    try db.row(all + " AND space = ?3 RETURNING label, space", [now, id, space])
                } else {
                    try db.row(all + " RETURNING label, space", [now, id])
                }
            var line = entry
            if let row, !row.isNull(1) { line?.space = SpaceName(try row.text(1)) }
            try AuditStorage.add(
                line, subject: Self.subject(id: id, label: try row?.text(0) ?? ""), outcome: row == nil ? "no such token" : AuditEntry.done,
                in: db)
            return row != nil
        }
        cache.withLock { $0.removeAll() }
        return found
    }

    /// The subject in the audit log.
    private static func subject(id: Int64, label: String) -> String {
        label.isEmpty ? "token \(id)" : "token \(id) (\(label))"
    }

    private static let columns = "id, label, space, scope, created, expires, revoked, hash, holder"

    private func lookUp(_ hash: Digest) async throws -> Outcome {
        try await reading { db in
            let sql = "SELECT \(Self.columns) FROM annals_tokens WHERE hash = ?1"
            guard let row = try db.row(sql, [hash]), let record = try Self.record(row), Self.isEqual(hash.bytes, try row.bytes(7))
            else { return .unknown }
            guard record.revoked == nil else { return .revoked }
            return .granted(
                TokenGrant(id: record.id, space: record.space, scope: record.scope, expires: record.expires, holder: record.holder))
        }
    }

    private func reading<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await RelayLogError.wrapped { try await database.storage.read(body) }
    }

    private func writing<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        do {
            return try await database.storage.write(body)
        } catch let error where error is Refusal || error is CancellationError {
            throw error
        } catch {
            throw RelayLogError.wrapping(error)
        }
    }

    private func aged(_ outcome: Outcome) -> Outcome {
        if case .granted(let grant) = outcome, let expires = grant.expires, expires <= clock.wall() { .expired } else { outcome }
    }

    /// nil for a row with a scope or space that this program does not know: such a token grants nothing.
    private static func record(_ row: LogRow) throws -> TokenRecord? {
        guard let scope = TokenScope(rawValue: try row.text(3)) else { return nil }
        let space = row.isNull(2) ? nil : SpaceName(try row.text(2))
        guard row.isNull(2) == (space == nil) else { return nil }
        return TokenRecord(
            id: try row.integer(0), label: try row.text(1), space: space, scope: scope, created: try row.number(4),
            expires: row.isNull(5) ? nil : try row.number(5, to: .max), revoked: row.isNull(6) ? nil : try row.integer(6),
            holder: row.isNull(8) ? nil : try row.integer(8))
    }

    private static func hash(_ secret: String) -> Digest {
        Digest.sha256(Array(secret.utf8)[...])
    }

    /// Takes constant time for arrays of equal length.
    package static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for (one, other) in zip(left, right) { difference |= one ^ other }
        return difference == 0
    }
}

/// Base64 with `-` and `_`, without padding (RFC 4648, section 5).
enum Base64URL {
    static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
