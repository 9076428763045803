import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire

/// A relay that is restored from an older backup, while replicas have more of its log (merge rule 41). These replicas get an error.
/// They keep their data, and the log gets none of their later transactions. The other replicas continue.
extension SimulatedSpace {
    /// The log on which a replica's rows are based.
    func log(of replica: Replica) -> Oracle { replica.lostLog ?? oracle }

    func restoreRelay() async throws {
        guard let backup, restoredHead == nil, backup.log.head < oracle.head else { return }
        trace.note("+\(time.now) the relay is restored: its head goes from \(oracle.head) to \(backup.log.head)")
        let (whole, head) = (oracle, backup.log.head)
        try await machine.restore(backup.folder)
        relayIsDown = false
        (oracle, frames, restoredHead, wholeLog) = (backup.log, backup.frames, head, whole)
        for replica in replicas {
            if replica.look.position > head || replica.look.ahead.contains(where: { $0 > head }) { replica.lostLog = whole }
            replica.keepsLostParts = replica.look.kept.contains { $0 > head }
            replica.accepted = replica.lostLog == nil ? replica.accepted.filter { $0 <= head } : replica.accepted
            replica.exchange?.mayFindRestored = replica.lostLog != nil
        }
        // All messages under way are lost with the machine.
        queue.replaceAll { event in
            let lost = Session.Reply.failed(.unreachable("the relay is away", wasSent: true))
            switch event {
            case .arrival(let replica, let step, let request, _, _, let isCopy):
                return isCopy ? nil : .reply(replica: replica, step: step, request: request, lost)
            case .reply(let replica, let step, let request, let reply) where reply.isAnswer:
                return .reply(replica: replica, step: step, request: request, lost)
            case .step, .reply, .restart, .relayStarts: return event
            }
        }
    }

    /// Replicas whose log the relay has again, because others pushed the same transactions again, are no longer left behind.
    func noteReturned() {
        guard restoredHead != nil else { return }
        for replica in replicas {
            guard let lost = replica.lostLog, lost.isSame(as: oracle, upTo: max(1, replica.look.position)),
                replica.look.ahead.allSatisfy({ $0 <= oracle.head && oracle.entry(at: $0).isSame(as: lost.entry(at: $0)) })
            else { continue }
            replica.lostLog = nil
        }
    }

    /// A replica whose log differs from the relay's gets an error, and no other replica does.
    func checkRestored(
        _ replica: Replica, _ exchange: Replica.Exchange, _ result: Result<SyncAgent.Summary, AnnalsError>
    ) throws {
        switch result {
        case .success:
            // A push without transactions sends no request, and a request for the space's description always gets an answer.
            if replica.lostLog != nil, exchange.hasOtherAnswer {
                throw Violation("merge rule 41", "\(replica.name) at \(replica.look.position) did not notice that the relay was restored")
            }
        case .failure(let error):
            replica.reportsLostLog = error.code == .relayRolledBack
            if replica.reportsLostLog, !exchange.mayFindRestored {
                throw Violation("merge rule 41", "\(replica.name) at \(replica.look.position) takes the relay for a restored one")
            }
        }
    }
}

extension Oracle {
    /// Whether two logs have the same entries up to a position.
    func isSame(as other: Oracle, upTo position: Int64) -> Bool {
        guard position <= min(head, other.head) else { return false }
        return (0..<position).allSatisfy { other.entry(at: $0 + 1).isSame(as: entry(at: $0 + 1)) }
    }
}

extension Oracle.Entry {
    fileprivate func isSame(as other: Oracle.Entry) -> Bool {
        replica == other.replica && info.id == other.info.id && span == other.span && changes.map(\.text) == other.changes.map(\.text)
    }
}
