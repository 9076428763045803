package import AnnalsCore
package import AnnalsWire

/// The relay's judgement of pushes to one space: merge rules 10, 11 and 13 of the merge, without input or output.
///
/// It is given batches and answers with decisions; whoever holds it stores what it accepted. What it accepts it counts
/// as stored at once, since the next push of the same commit is judged against it. Should the commit fail, this value
/// is out of step with the log: throw it away and load another.
///
/// The order of the checks matters. What is already in the log comes before all that could refuse it, so that a retry
/// always learns its positions; and a transaction refused as stale is stale for ever (bases stay, the log only grows,
/// footprints are only dropped), so that its author may rewrite it without fear of a late copy (merge rule 16).
package struct Certifier: Sendable {
    package let lineage: Lineage
    package private(set) var head: Position
    private var index: CertificationIndex
    private var turns: Turns
    private var replicas: [ReplicaID: LastAccepted] = [:]

    /// What became of a batch.
    package struct Verdict: Hashable, Sendable {
        /// Positions of the transactions that the log held before: the batch's first ones.
        package var known: [Position] = []
        /// Transactions of the batch accepted now: those after the known ones.
        package var accepted = 0
        /// Where the first of those goes.
        package var firstPosition = Position.zero
        package var outcome = PushAnswer.Outcome.accepted
        /// The base of the transaction at which it stopped; nil when it did not stop.
        package var stoppedBase: Position?

        package var positions: [Position] { known + (0..<accepted).map { firstPosition.advanced(by: $0) } }

        /// What is known of purged entries is only that they lie no later than here, so each gives way to the one after it.
        fileprivate mutating func makeKnownAscend() {
            for index in known.indices.dropLast().reversed() where known[index] >= known[index + 1] {
                known[index] = known[index + 1].advanced(by: -1)
            }
        }
    }

    /// A transaction that the log holds.
    package struct Accepted: Hashable, Sendable {
        package var digest: Digest
        package var position: Position

        package init(digest: Digest, position: Position) {
            self.digest = digest
            self.position = position
        }
    }

    /// `loadedFrom`: the entries after this position will be recalled; older bases are stale. It never lies before the
    /// floor that an earlier certifier of the space had.
    package init(lineage: Lineage, head: Position, loadedFrom: Position, limits: RelayLogLimits) {
        self.lineage = lineage
        self.head = head
        index = CertificationIndex(maximumHashes: limits.hashesPerSpace, floor: loadedFrom)
        turns = Turns(limits: limits)
    }

    /// Records an entry of the log, in the order of positions, when the space is loaded.
    package mutating func recall(_ footprint: Footprint, replica: ReplicaID, position: Position) {
        index.record(footprint, replica: replica, position: position)
    }

    /// The log goes on to here, by what was recalled.
    mutating func advance(to head: Position) {
        self.head = head
    }

    /// Bases before this position are stale, and stay so: a transaction refused for it may be rewritten already.
    var floor: Position { index.floor }

    /// Makes older bases stale: the log no longer goes back so far.
    package mutating func raiseFloor(to position: Position) {
        index.raiseFloor(to: position)
    }

    /// What is known of a replica's last accepted transaction; nil when it has not been asked from the log yet.
    package func last(of replica: ReplicaID) -> LastAccepted? {
        replicas[replica]
    }

    package mutating func setLast(_ last: LastAccepted, of replica: ReplicaID) {
        replicas[replica] = last
    }

    /// Judges a batch whose replica's last transaction is set.
    ///
    /// `now` is in monotonic milliseconds. `accepted` finds the replica's transaction with this counter in the log; nil
    /// where the log no longer has it.
    package mutating func certify(_ batch: BatchHeader, now: Int64, accepted: (Counter) throws -> Accepted?) rethrows -> Verdict {
        var verdict = Verdict()
        var last = replicas[batch.replica] ?? .none
        turns.use(by: batch.replica)
        for (number, certificate) in batch.certificates.enumerated() {
            let counter = batch.counter(of: number)
            let outcome: PushAnswer.Outcome
            if batch.lineage != lineage || certificate.base > head {
                outcome = .wentBack
            } else if counter <= last.counter {
                if let known = try accepted(counter) {
                    if known.digest == certificate.digest {
                        verdict.known.append(known.position)
                        continue
                    }
                } else if batch.ends(in: last) {
                    verdict.known.append(last.position(of: counter))
                    continue
                }
                outcome = .identityConflict
            } else {
                let follows = counter == last.counter.next && batch.previousDigest(of: number) == last.digest
                outcome = follows ? judge(certificate, of: batch.replica, now: now) : .gap
            }
            guard outcome == .accepted else {
                verdict.outcome = outcome
                verdict.stoppedBase = certificate.base
                break
            }
            head = head.next
            if verdict.accepted == 0 { verdict.firstPosition = head }
            verdict.accepted += 1
            index.record(certificate.footprint, replica: batch.replica, position: head)
            last = LastAccepted(counter: counter, digest: certificate.digest, position: head)
        }
        verdict.makeKnownAscend()
        replicas[batch.replica] = last
        count(verdict, of: batch, now: now)
        return verdict
    }

    /// Judges one part of a transaction too large for one batch, of a replica whose last transaction is set.
    ///
    /// All parts bear the transaction's base and footprint, so what is stale is refused with the first part that comes after
    /// it became so. Turns count for the last part alone, and last as long as parts of their holder come.
    ///
    /// - Parameter pending: the replica's parts that are here; nil when there are none.
    package mutating func certifyPart(
        _ batch: BatchHeader, pending: PendingParts?, now: Int64, accepted: (Counter) throws -> Accepted?
    ) rethrows -> Verdict {
        var verdict = Verdict()
        let (certificate, counter) = (batch.certificates[0], batch.firstCounter)
        let last = replicas[batch.replica] ?? .none
        if batch.lineage != lineage || certificate.base > head {
            verdict.outcome = .wentBack
        } else if counter <= last.counter {
            if let known = try accepted(counter) {
                if known.digest == certificate.digest { verdict.known = [known.position] }
            } else if batch.ends(in: last) {
                verdict.known = [last.position(of: counter)]
            }
            if verdict.known.isEmpty { verdict.outcome = .identityConflict }
        } else if batch.part.number == 0, counter != last.counter.next || batch.previousDigest != last.digest {
            verdict.outcome = .gap
        } else if batch.part.number > 0, pending.map({ $0.holds(batch) || $0.isFollowed(by: batch) }) != true {
            verdict.outcome = .partsMissing
        } else {
            verdict.outcome = judgePart(batch, now: now)
        }
        if verdict.outcome == .accepted, verdict.known.isEmpty, batch.part.isLast {
            verdict.accepted = batch.part.count
            verdict.firstPosition = head.next
            head = head.advanced(by: batch.part.count)
            // Nobody's base lies between the parts, so the last position stands for all.
            index.record(certificate.footprint, replica: batch.replica, position: head)
            replicas[batch.replica] = LastAccepted(counter: counter, digest: certificate.digest, position: head)
        }
        if verdict.outcome != .accepted { verdict.stoppedBase = certificate.base }
        count(verdict, of: batch, now: now)
        return verdict
    }

    private mutating func judgePart(_ batch: BatchHeader, now: Int64) -> PushAnswer.Outcome {
        if batch.part.isLast {
            turns.use(by: batch.replica)
            return judge(batch.certificates[0], of: batch.replica, now: now)
        }
        turns.extend(of: batch.replica, now: now)
        return certify(batch.certificates[0], of: batch.replica)
    }

    /// Whether a transaction that is the replica's next may go in.
    private func judge(_ certificate: Certificate, of replica: ReplicaID, now: Int64) -> PushAnswer.Outcome {
        if let wait = turns.wait(for: replica, now: now) { return .wait(milliseconds: Int(wait)) }
        return certify(certificate, of: replica)
    }

    private func certify(_ certificate: Certificate, of replica: ReplicaID) -> PushAnswer.Outcome {
        guard certificate.base >= index.floor else { return .stale(at: nil) }
        if let position = index.conflict(of: certificate.footprint, base: certificate.base, replica: replica) {
            return .stale(at: position)
        }
        return .accepted
    }

    private mutating func count(_ verdict: Verdict, of batch: BatchHeader, now: Int64) {
        if verdict.accepted > 0 { turns.noteAccepted(batch.replica) }
        if case .stale = verdict.outcome {
            let refused = batch.certificates[verdict.known.count + verdict.accepted]
            turns.noteStale(batch.replica, isUrgent: refused.footprint.everything, now: now)
        }
    }
}

extension BatchHeader {
    /// Whether this is, or belongs to, what the replica pushed last, as far as that can be said without the log.
    ///
    /// A digest covers the one before it, so the last accepted one speaks for those before it in the same batch. Parts of a
    /// transaction come one by one: those before the last are taken for known until the last one's digest decides.
    fileprivate func ends(in last: LastAccepted) -> Bool {
        if !part.isWhole, !part.isLast { return firstCounter.rawValue + Int64(part.count - part.number) - 1 == last.counter.rawValue }
        let place = last.counter.rawValue - firstCounter.rawValue
        guard place >= 0, place < Int64(certificates.count) else { return false }
        return certificates[Int(place)].digest == last.digest
    }
}

extension LastAccepted {
    /// The latest position that a purged transaction before it can have. Positions ascend, and all of these are purged, so no
    /// replica needs to know it better.
    fileprivate func position(of counter: Counter) -> Position {
        position.advanced(by: Int(counter.rawValue - self.counter.rawValue))
    }
}
