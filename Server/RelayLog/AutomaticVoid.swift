internal import AnnalsCore
internal import Logging

/// Voids an entry without an operator, if enough owners report that they cannot apply it.
///
/// The relay cannot verify a report, because it reads no entry. So two conditions must hold: enough owners report the
/// entry, and no replica of an owner other than the author's has acknowledged it. Both are checked in the transaction
/// that voids it.
extension RelayLog {
    /// Voids a reported entry if the conditions hold. A failure here does not fail the report.
    func voidReported(_ position: Position, of name: SpaceName) async {
        guard autoVoid > 0 else { return }
        do {
            // Writes the pending acknowledgements first.
            _ = try await replicas(of: name)
            guard let done = try await database.voidReported(position, of: name, needing: autoVoid, now: clock.wall()) else { return }
            publish(done.entry, of: name)
            logger.notice(
                "a reported entry was voided", metadata: ["space": "\(name)", "position": "\(position)", "author": "\(done.author)"])
        } catch let refusal as VoidRefusal {
            logger.info(
                "a reported entry was not voided automatically; an operator can void it",
                metadata: ["space": "\(name)", "position": "\(position)", "reason": "\(refusal.summary)"])
        } catch {
            logger.warning(
                "a reported entry could not be voided",
                metadata: ["space": "\(name)", "position": "\(position)", "reason": "\(RelayLogError.wrapping(error))"])
        }
    }
}

extension RelayDatabase {
    /// Voids an entry if at least `count` owners other than the author's reported it, together with later entries of
    /// the author's owner that may depend on it.
    ///
    /// - Returns: nil if too few reports count, or if the author's replica has no owner: its owner could be among the
    ///   reporters.
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

    /// The first owners by name, so that the audit line stays short.
    private static func list(_ owners: [String]) -> String {
        let named = owners.prefix(RelayLogLimits.ownersNamed).map(ReplicaOwner.shown).joined(separator: ", ")
        return owners.count > RelayLogLimits.ownersNamed ? "\(named) and \(owners.count - RelayLogLimits.ownersNamed) more" : named
    }
}
