package import AnnalsCore

/// An owner that may read a space and no longer write to it, until the operator lifts that.
///
/// A program that writes entries which nobody can apply does so again and again, and each entry that the operator voids is brought
/// once more by its author. Quarantine ends that without a loss: what the owner's replicas write stays in their outboxes. They hold back
/// neither purges nor voids meanwhile, since how far they have come is the word of a program that is known to be wrong.
package struct Quarantine: Sendable, Hashable {
    /// As `ReplicaOwner.text` has it.
    package var owner: String
    /// When it began, in milliseconds since 1970.
    package var since: Int64
}

extension RelayDatabase {
    /// Refuses what an owner pushes to a space from now on. One that is quarantined already stays so from when it was.
    ///
    /// A serving relay knows it with its next commit.
    ///
    /// - Parameters:
    ///   - owner: as `ReplicaOwner.text` has it.
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
                    entry, subject: ReplicaOwner.shown(owner), outcome: since == now ? AuditEntry.done : "quarantined already", in: db)
                return Quarantine(owner: owner, since: since)
            }
        }
    }

    /// Takes what an owner pushes again. False where it is not quarantined.
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

    /// The owners that are quarantined in a space.
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

    /// The owners that a word of the operator's means in a space: `token 3` or `3`, also by a token that renews it, and `subject ada` or
    /// `ada`. More than one where several identity providers know such a subject; with the provider behind it the word means one.
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
    /// An owner's text as it is shown: a subject without its provider.
    package static func shown(_ text: String) -> String { String(text.prefix { $0 != "\n" }) }

    /// Whether a word of the operator's means the owner of this text.
    fileprivate static func isCalled(_ text: String, _ word: String) -> Bool {
        let shown = shown(text)
        return [text.replacing("\n", with: " "), shown, String(shown.drop { $0 != " " }.dropFirst())].contains(word)
    }

    /// The number of the token that a word names, as `token 3` or `3`.
    fileprivate static func tokenNumber(_ word: String) -> Int64? {
        Int64(word.hasPrefix(tokenPrefix) ? String(word.dropFirst(tokenPrefix.count)) : word)
    }
}
