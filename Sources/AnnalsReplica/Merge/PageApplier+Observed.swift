import AnnalsCore
import AnnalsMerge
import AnnalsWire

extension PageApplier {
    /// Notes what a transaction of another replica shows besides its rows. The relay's own entries are not given: the relay writes no
    /// rows, so its times do not move the clock, and it has no name.
    mutating func observe(_ info: TransactionInfo, _ writer: WriteMark) throws {
        clock.observe(writer.time)
        if let named, named == (writer.replica, info.replicaName) { return }
        try ReplicaNames.note(info, of: writer.replica, db)
        named = (writer.replica, info.replicaName)
    }

    /// Compares the part of the log that an author has seen with the log here.
    func compareSeen(_ header: BatchHeader, _ frame: LogFrame) throws {
        guard header.replica != .relay, header.replica != state.replica else { return }
        guard header.seen.position < frame.firstPosition else { throw WireError.badValue("seen position") }
        guard let theirs = header.seen.digest, let ours = try state.logDigest(at: header.seen.position, db), theirs != ours else { return }
        try header.checkSignature(in: frame.batch)
        throw ContradictingLog(
            evidence: try state.evidence(
                .otherLog, of: header, in: frame.batch, at: frame.firstPosition, about: header.seen.position, known: ours))
    }
}
