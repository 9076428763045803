import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore

/// The operation that may have changed a replica's database since the last look.
enum Cause {
    /// A managed write was committed; it records external writes first.
    case write
    /// External programs wrote.
    case strangers
    /// An operation recorded external writes and filled the outbox.
    case seal
    /// A policy was set or a conflict was resolved. Both record external writes and fill the outbox first.
    case decision
    /// A program migrated through the library, which records external writes first.
    case migration
    /// An answer of the relay was processed. This may record external writes and fill the outbox.
    case reply
    /// No operation that could commit.
    case nothing
}

/// After every step the database is read and compared with the oracle.
extension SimulatedSpace {
    func observe(_ replica: Replica, after cause: Cause) throws {
        let before = replica.look
        let now = try look(replica)
        replica.seenNumber = now.recorded.last?.number ?? replica.seenNumber
        replica.look = now
        if now.kept.isEmpty || now.kept != before.kept { replica.keepsLostParts = false }
        noteRepeatable(replica, before, now)
        try learn(replica, before, now, cause)
        try checkRows(replica, before, now, cause)
        if replica.mayHoldUnseen { try checkDoubt(replica, before, now, cause) }
        if now.replica != before.replica, !replica.isCopied {
            throw Violation("merge rule 39", "\(replica.name) took a new identity, and its file was never copied")
        }
        try checkUntracked(replica, before, now, cause)
        try checkPurge(replica, before, now)
        try checkView(replica, now)
        // The store pulls nothing before the rows are compared.
        if !before.isInDoubt { try checkRebase(replica, before, now) }
    }

    // MARK: The transactions

    private func learn(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        var own = 0
        for recorded in now.recorded {
            switch TransactionOrigin(rawValue: recorded.origin) {
            case .local, .undo:
                own += 1
                try ledger.add(intent(replica, recorded, before.rows, now.rows))
            case .external where replica.mayHoldUnseen:
                // Its content is unknown here: both the writes without capture and the differences that the store found later.
                try ledger.add(intent(replica, recorded, now.rows, now.rows))
                replica.rowsBeforeStrangers = nil
            case .external:
                guard let rows = replica.rowsBeforeStrangers else {
                    throw Violation("law 1", "\(replica.name) sealed strangers' writes, and nobody wrote")
                }
                try ledger.add(intent(replica, recorded, rows, before.rows))
                replica.rowsBeforeStrangers = nil
            case .migration where cause == .migration:
                try ledger.add(intent(replica, recorded, before.rows, now.rows))
            case .migration, .imported, .rebase, nil:
                continue
            }
            replica.newestOwnNumber = recorded.number
        }
        if cause == .decision { try learnDecisions(replica, now) }
        try learnSealing(replica, before, now, cause)
        if cause == .write, own == 0, !replica.power.isDead {
            let missed = before.rows.differences(to: now.rows)
            guard missed.isEmpty else { throw Violation("law 1", "\(replica.name) wrote without a transaction: \(missed.map(\.text))") }
        }
    }

    /// User decisions without a changed row are in the outbox and not in history.
    private func learnDecisions(_ replica: Replica, _ now: Look) throws {
        for waiting in now.outbox where waiting.decoded.changes.isEmpty && ledger.intents[waiting.id] == nil {
            guard !waiting.decoded.policies.isEmpty || !waiting.decoded.resolutions.isEmpty else { continue }
            try ledger.add(
                Ledger.Intent(id: waiting.id, replica: replica.name, number: 0, time: waiting.decoded.info.time, differences: []))
        }
    }

    /// External writes that cancel each other out leave no transaction when they are recorded; others must.
    private func learnSealing(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        guard cause != .strangers, !replica.mayHoldUnseen, let rows = replica.rowsBeforeStrangers else { return }
        let unsealed = rows.differences(to: before.rows)
        if unsealed.isEmpty {
            // Whether they were recorded or not, only later changes count.
            replica.rowsBeforeStrangers = now.rows
            return
        }
        let tookIn = (before.position..<max(before.position, now.position)).contains { !replica.accepted.contains($0 + 1) }
        let isSealed =
            [.write, .decision].contains(cause)
            || (!replica.power.isDead && ([.seal, .migration].contains(cause) || (cause == .reply && tookIn)))
        if isSealed { throw Violation("law 1", "\(replica.name) sealed, and missed \(unsealed.map(\.text))") }
    }

    private func intent(_ replica: Replica, _ recorded: Look.Recorded, _ before: Rows, _ after: Rows) -> Ledger.Intent {
        Ledger.Intent(
            id: recorded.id, replica: replica.name, number: recorded.number, time: recorded.time, differences: before.differences(to: after)
        )
    }

    // MARK: The rows

    /// An operation that changes no rows changed none, and a transaction that was not committed left nothing (law 6).
    private func checkRows(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        guard cause == .seal || cause == .nothing, before.rows != now.rows else { return }
        if cause == .seal, before.unsettled || isBroken(before.rows) { return }
        let changed = before.rows.differences(to: now.rows).map(\.text)
        throw Violation("law 6", "\(replica.name) has other rows though nothing was committed: \(changed)")
    }

    /// Law 3: the rows are the log up to the position, own entries after it, and the outbox.
    private func checkView(_ replica: Replica, _ now: Look) throws {
        let oracle = log(of: replica)
        guard now.position <= oracle.head else { throw Violation("law 3", "\(replica.name) is at \(now.position), beyond the log") }
        try checkParts(replica, now, oracle)
        if replica.mayHoldUnseen { return }
        var rows = oracle.rows(at: now.position)
        do {
            for position in now.ahead {
                guard position > now.position, position <= oracle.head else {
                    throw Violation("law 3", "\(position) is not ahead of \(now.position)")
                }
                try rows.apply(oracle.entry(at: position).changes, plan.schema)
            }
            for waiting in now.outbox { try rows.apply(waiting.decoded.changes, plan.schema) }
        } catch let error as Violation {
            throw Violation("law 3", "\(replica.name) at \(now.position): what is unsent does not lie on the log: \(error.text)")
        }
        guard !hasUnsealed(replica, now), isFilled(replica, now), rows != now.rows else { return }
        let differences = rows.differences(to: now.rows).map(\.text)
        throw Violation("law 3", "\(replica.name) at \(now.position) has other rows than the log and its outbox say: \(differences)")
    }

    /// Law 6: no replica is between the parts of a transaction. Received parts are buffered directly after the position.
    private func checkParts(_ replica: Replica, _ now: Look, _ oracle: Oracle) throws {
        if oracle.isInside(now.position) { throw Violation("law 6", "\(replica.name) is at \(now.position), inside a transaction") }
        for position in now.ahead where position <= oracle.head {
            let span = oracle.entry(at: position).span
            guard span.allSatisfy(now.ahead.contains) else {
                throw Violation("law 6", "\(replica.name) has only some of the parts at \(span) ahead of \(now.position)")
            }
        }
        if now.kept.isEmpty || oracle.isBeginning(now.kept, after: now.position) { return }
        // These may be parts of the log before the restore. The store keeps them until the log shows that no later part continues them.
        if replica.keepsLostParts, wholeLog?.isBeginning(now.kept, after: now.position) ?? false { return }
        // A replica whose log is gone notices it only when the relay's log contradicts its own: by another entry, or by an entry at
        // the position of an own one.
        if self.oracle.isBeginning(now.kept, after: now.position), oracle.isSame(as: self.oracle, upTo: now.position),
            !self.oracle.entry(at: now.position + 1).span.contains(where: now.ahead.contains)
        {
            return
        }
        throw Violation("law 6", "\(replica.name) at \(now.position) keeps \(now.kept), not the beginning of a transaction")
    }

    /// Law 5: the values that a rebase drops are in the journal, and the values that it keeps agree with the policy.
    private func checkRebase(_ replica: Replica, _ before: Look, _ now: Look) throws {
        guard let rebase = try rebase(replica, before, now), !rebase.rewrites.isEmpty else { return }
        trace.note("  \(replica.name) rebased: " + rebase.rewrites.map(\.text).joined(separator: "; "))
        try LossChecks(schema: plan.schema, rebase: rebase).run()
        var judge = Judge(schema: plan.schema, rebase: rebase)
        try judge.run()
        for rewrite in rebase.rewrites where rewrite.after == nil { ledger.noteGone(rewrite.before.info.id) }
    }

    /// Whether external programs left children without parents. The actions of their foreign keys are done before anything is sent.
    func isBroken(_ rows: Rows) -> Bool {
        do throws(Violation) {
            try Constraints(schema: plan.schema).checkReferences(rows)
            return false
        } catch {
            return true
        }
    }

    /// Whether external writes are not in any transaction yet.
    func hasUnsealed(_ replica: Replica, _ now: Look) -> Bool {
        replica.rowsBeforeStrangers.map { $0 != now.rows } ?? false
    }

    /// Whether the outbox has everything that history has.
    private func isFilled(_ replica: Replica, _ now: Look) -> Bool {
        replica.newestOwnNumber <= now.outboxed
    }
}
