package import AnnalsCore
package import AnnalsWire

/// Decides which pushes to one space are accepted: merge rules 10, 11 and 13, without input or output.
///
/// The certifier gets batches and returns verdicts; its caller stores what it accepted. It counts an accepted batch as
/// stored at once, because it certifies the next push of the same commit against that batch. If the commit fails, this
/// value no longer matches the log: discard it and load another.
///
/// The order of the checks matters. The test for transactions that are in the log already comes before every check that
/// could refuse them, so a retry always gets its positions. A transaction that was stale once is stale forever, because
/// bases do not change, the log only grows, and footprints are only dropped. So its author can rewrite it without the
/// risk that a late copy is accepted (merge rule 16).
package struct Certifier: Sendable {
    package let lineage: Lineage
    package private(set) var head: Position
    private var index: CertificationIndex
    private var lease: PushLease
    private var replicas: [ReplicaID: LastAccepted] = [:]

    /// The result for a batch.
    package struct Verdict: Hashable, Sendable {
        /// Positions of the batch's first transactions that the log held already.
        package var known: [Position] = []
        /// Number of the batch's transactions that are accepted now, after the known ones.
        package var accepted = 0
        /// The position of the first accepted transaction.
        package var firstPosition = Position.zero
        package var outcome = PushAnswer.Outcome.accepted
        /// The base of the transaction that was not accepted; nil if all were.
        package var stoppedBase: Position?

        package var positions: [Position] { known + (0..<accepted).map { firstPosition.advanced(by: $0) } }

        /// Of a purged entry only the highest possible position is known. So each position is lowered below that of the
        /// next one.
        fileprivate mutating func makeKnownAscend() {
            for index in known.indices.dropLast().reversed() where known[index] >= known[index + 1] {
                known[index] = known[index + 1].advanced(by: -1)
            }
        }
    }

    /// A transaction in the log.
    package struct Accepted: Hashable, Sendable {
        package var digest: Digest
        package var position: Position

        package init(digest: Digest, position: Position) {
            self.digest = digest
            self.position = position
        }
    }

    /// - Parameter loadedFrom: the caller recalls the entries after this position; older bases are stale. It must not
    ///   be lower than the floor of an earlier certifier of the space.
    package init(lineage: Lineage, head: Position, loadedFrom: Position, limits: RelayLogLimits) {
        self.lineage = lineage
        self.head = head
        index = CertificationIndex(maximumHashes: limits.hashesPerSpace, floor: loadedFrom)
        lease = PushLease(limits: limits)
    }

    /// Records an entry of the log when the space is loaded. Entries come in the order of their positions.
    package mutating func recall(_ footprint: Footprint, replica: ReplicaID, position: Position) {
        index.record(footprint, replica: replica, position: position)
    }

    /// Sets the head after entries were recalled.
    mutating func advance(to head: Position) {
        self.head = head
    }

    /// Bases before this position are stale, and the floor never falls: an author may have rewritten a transaction that
    /// was refused for it.
    var floor: Position { index.floor }

    /// Makes bases before `position` stale, because the log was purged up to there.
    package mutating func raiseFloor(to position: Position) {
        index.raiseFloor(to: position)
    }

    /// A replica's last accepted transaction; nil if it was not loaded from the log yet.
    package func last(of replica: ReplicaID) -> LastAccepted? {
        replicas[replica]
    }

    package mutating func setLast(_ last: LastAccepted, of replica: ReplicaID) {
        replicas[replica] = last
    }

    /// Certifies a batch. The last transaction of its replica must be set.
    ///
    /// - Parameters:
    ///   - now: monotonic milliseconds.
    ///   - accepted: finds the replica's transaction with this counter in the log; nil if the log no longer has it.
    package mutating func certify(_ batch: BatchHeader, now: Int64, accepted: (Counter) throws -> Accepted?) rethrows -> Verdict {
        var verdict = Verdict()
        var last = replicas[batch.replica] ?? .none
        lease.use(by: batch.replica)
        for (number, certificate) in batch.certificates.enumerated() {
            let counter = batch.counter(of: number)
            let outcome: PushAnswer.Outcome
            if batch.lineage != lineage || certificate.base > head {
                outcome = .logRolledBack
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

    /// Certifies one part of a transaction that is too large for one batch. The last transaction of its replica must be
    /// set.
    ///
    /// All parts carry the base and footprint of the transaction. So a transaction that becomes stale is refused with
    /// its next part. Only the last part waits for other replicas' push leases and uses up its own; each part before it
    /// extends the lease of its replica.
    ///
    /// - Parameter pending: the replica's buffered parts; nil if there are none.
    package mutating func certifyPart(
        _ batch: BatchHeader, pending: PendingParts?, now: Int64, accepted: (Counter) throws -> Accepted?
    ) rethrows -> Verdict {
        var verdict = Verdict()
        let (certificate, counter) = (batch.certificates[0], batch.firstCounter)
        let last = replicas[batch.replica] ?? .none
        if batch.lineage != lineage || certificate.base > head {
            verdict.outcome = .logRolledBack
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
            // No base lies between the parts, so one record at the last position is enough.
            index.record(certificate.footprint, replica: batch.replica, position: head)
            replicas[batch.replica] = LastAccepted(counter: counter, digest: certificate.digest, position: head)
        }
        if verdict.outcome != .accepted { verdict.stoppedBase = certificate.base }
        count(verdict, of: batch, now: now)
        return verdict
    }

    private mutating func judgePart(_ batch: BatchHeader, now: Int64) -> PushAnswer.Outcome {
        if batch.part.isLast {
            lease.use(by: batch.replica)
            return judge(batch.certificates[0], of: batch.replica, now: now)
        }
        lease.extend(of: batch.replica, now: now)
        return certify(batch.certificates[0], of: batch.replica)
    }

    /// Tests the replica's next transaction against the push lease and the index.
    private func judge(_ certificate: Certificate, of replica: ReplicaID, now: Int64) -> PushAnswer.Outcome {
        if let wait = lease.wait(for: replica, now: now) { return .wait(milliseconds: Int(wait)) }
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
        if verdict.accepted > 0 { lease.noteAccepted(batch.replica) }
        if case .stale = verdict.outcome {
            let refused = batch.certificates[verdict.known.count + verdict.accepted]
            lease.noteStale(batch.replica, isUrgent: refused.footprint.everything, now: now)
        }
    }
}

extension BatchHeader {
    /// Whether this batch is, or belongs to, the last push of the replica, as far as the digests show it without the
    /// log.
    ///
    /// A digest covers the digest before it. So the last accepted digest also proves the earlier transactions of the
    /// same batch. Parts of a transaction come one at a time: earlier parts count as known, and the digest of the last
    /// part decides.
    fileprivate func ends(in last: LastAccepted) -> Bool {
        if !part.isWhole, !part.isLast { return firstCounter.rawValue + Int64(part.count - part.number) - 1 == last.counter.rawValue }
        let place = last.counter.rawValue - firstCounter.rawValue
        guard place >= 0, place < Int64(certificates.count) else { return false }
        return certificates[Int(place)].digest == last.digest
    }
}

extension LastAccepted {
    /// The highest position that a purged transaction with this counter can have. All these positions are purged, so no
    /// replica needs the exact one.
    fileprivate func position(of counter: Counter) -> Position {
        position.advanced(by: Int(counter.rawValue - self.counter.rawValue))
    }
}
