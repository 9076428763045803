internal import AnnalsCore
internal import Logging

/// Voiding without an operator, where enough owners say that they cannot apply an entry.
///
/// A report is the word of one member and cannot be checked: the relay reads no entry. So what counts is how many owners say the same,
/// and that nobody but the author's owner is known to have applied the entry. Both are judged in the transaction that voids.
extension RelayLog {
    /// Voids a reported entry if it is to be voided by itself. What keeps it from that is no failure of the report.
    func voidReported(_ position: Position, of name: SpaceName) async {
        guard autoVoid > 0 else { return }
        do {
            // With every acknowledgement that has come so far.
            _ = try await replicas(of: name)
            guard let done = try await database.voidReported(position, of: name, needing: autoVoid, now: clock.wall()) else { return }
            publish(done.entry, of: name)
            logger.notice(
                "a reported entry is void", metadata: ["space": "\(name)", "position": "\(position)", "author": "\(done.author)"])
        } catch let refusal as VoidRefusal {
            logger.info(
                "a reported entry is left to the operator",
                metadata: ["space": "\(name)", "position": "\(position)", "reason": "\(refusal.summary)"])
        } catch {
            logger.warning(
                "a reported entry could not be voided",
                metadata: ["space": "\(name)", "position": "\(position)", "reason": "\(RelayLogError.wrapping(error))"])
        }
    }
}

extension RelayDatabase {
    /// Voids an entry that so many owners other than its author's have reported, with what the author's owner wrote on top of it.
    ///
    /// - Returns: nil where too few reports count, or the author's replica is nobody's, so that its owner might be among the reporters.
    /// - Throws: `VoidRefusal`, `RelayLogError`.
    func voidReported(_ position: Position, of name: SpaceName, needing count: Int, now: Int64) async throws -> VoidOutcome? {
        let line = AuditEntry(.entryVoid, by: .automatic, space: name, at: now)
        let (outcome, files) = try await storage.write { db -> (VoidOutcome?, [String]) in
            guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
            guard let owner = try ReportStorage.authorsOwner(of: position, in: space.id, db) else { return (nil, []) }
            let reporters = try ReportStorage.reporters(of: position, in: space.id, db).filter {
                try $0 != owner && OwnerStorage.isHeld(by: $0, at: now, in: db)
            }
            guard reporters.count >= count else { return (nil, []) }
            var work = try Voided(space, db, now: now)
            try work.begin(at: position, .ofAuthorsOwner)
            let (outcome, files) = try work.finish(name)
            let positions = outcome.voided.map { "\($0)" }.joined(separator: ", ")
            try AuditStorage.add(
                line, subject: "\(positions) by \(outcome.author), reported by \(Self.list(reporters))", outcome: AuditEntry.done, in: db)
            return (outcome, files)
        }
        for file in files { snapshots.remove(file) }
        return outcome
    }

    /// The first of them by name: a line of the audit log stays a line.
    private static func list(_ owners: [String]) -> String {
        let named = owners.prefix(RelayLogLimits.ownersNamed).map(ReplicaOwner.shown).joined(separator: ", ")
        return owners.count > RelayLogLimits.ownersNamed ? "\(named) and \(owners.count - RelayLogLimits.ownersNamed) more" : named
    }
}
