package import AnnalsCore

/// An owner that can read a space and not write to it, until the operator lifts the quarantine.
///
/// A faulty program may write entries that cannot be applied again and again, and the author sends the changes of each
/// voided entry again. Quarantine ends this without loss: the transactions of the owner's replicas stay in their
/// outboxes. Meanwhile these replicas hold back neither purges nor voids, because their acknowledgements come from a
/// faulty program.
package struct Quarantine: Sendable, Hashable {
    /// The text of `ReplicaOwner.text`.
    package var owner: String
    /// When the quarantine began, in milliseconds since 1970.
    package var since: Int64
}

extension RelayDatabase {
    /// Refuses an owner's pushes to a space from now on. An owner that is quarantined already keeps its first date.
    ///
    /// A serving relay applies the quarantine from its next commit.
    ///
    /// - Parameters:
    ///   - owner: the text of `ReplicaOwner.text`.
    ///   - now: the relay's clock, in milliseconds since 1970.
    ///   - by: who does it, for the audit log.
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func quarantine(_ owner: String, of name: SpaceName, now: Int64, by: Operator? = nil) async throws -> Quarantine {
        let entry = AuditEntry(.ownerQuarantine, by: by, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                let since = try QuarantineStorage.add(owner, of: space.id, at: now, in: db)
                try AuditStorage.add(
                    entry, subject: ReplicaOwner.shown(owner), outcome: since == now ? AuditEntry.done : "already quarantined", in: db)
                return Quarantine(owner: owner, since: since)
            }
        }
    }

    /// Accepts an owner's pushes again. Returns false if the owner is not quarantined.
    ///
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func liftQuarantine(of owner: String, in name: SpaceName, now: Int64, by: Operator? = nil) async throws -> Bool {
        let entry = AuditEntry(.ownerLift, by: by, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                let found = try QuarantineStorage.remove(owner, of: space.id, in: db)
                try AuditStorage.add(
                    entry, subject: ReplicaOwner.shown(owner), outcome: found ? AuditEntry.done : "not quarantined", in: db)
                return found
            }
        }
    }

    /// The quarantined owners of a space.
    ///
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func quarantines(of name: SpaceName) async throws -> [Quarantine] {
        try await RelayLogError.wrapped {
            try await storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                return try QuarantineStorage.all(of: space.id, in: db)
            }
        }
    }

    /// The owners of a space that an operator's text names: `token 3` or `3`, also for a token that renews it, and
    /// `subject ada` or `ada`. Several owners if several identity providers have such a subject; the text `subject ada`
    /// followed by the provider names one.
    ///
    /// - Throws: `RelayLogError`: `.spaceNotFound`, `.storage`.
    package func owners(called word: String, in name: SpaceName) async throws -> [String] {
        try await RelayLogError.wrapped {
            try await storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                let known = try QuarantineStorage.owners(in: space.id, db).filter { ReplicaOwner.isCalled($0, word) }
                guard known.isEmpty, let id = ReplicaOwner.tokenNumber(word) else { return known }
                return try OwnerStorage.holder(ofToken: id, for: name, in: db).map { [ReplicaOwner.token($0).text] } ?? []
            }
        }
    }
}

extension ReplicaOwner {
    /// The displayed text of an owner: a subject without its provider.
    package static func shown(_ text: String) -> String { String(text.prefix { $0 != "\n" }) }

    /// Whether an operator's text names this owner.
    fileprivate static func isCalled(_ text: String, _ word: String) -> Bool {
        let shown = shown(text)
        return [text.replacing("\n", with: " "), shown, String(shown.drop { $0 != " " }.dropFirst())].contains(word)
    }

    /// The token number in a text such as `token 3` or `3`.
    fileprivate static func tokenNumber(_ word: String) -> Int64? {
        Int64(word.hasPrefix(tokenPrefix) ? String(word.dropFirst(tokenPrefix.count)) : word)
    }
}
