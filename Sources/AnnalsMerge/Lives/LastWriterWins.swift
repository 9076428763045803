package import AnnalsCore

/// Who wrote something, and when: what a rebase notes about foreign writes.
package struct WriteMark: Hashable, Sendable {
    /// Already cut down to the entry's receipt + 60 s.
    package var time: HybridTime
    package var replica: ReplicaID
    package var position: Position

    package init(time: HybridTime, replica: ReplicaID, position: Position) {
        self.time = time
        self.replica = replica
        self.position = position
    }
}

/// The later hybrid logical time wins; ties are settled by ReplicaID.
package enum LastWriterWins {
    /// `time` and `replica` are the incoming change's, its time already cut down to the relay's time + 60 s.
    package static func winner(incoming time: HybridTime, of replica: ReplicaID, stored: WriteMark) -> JournalEntry.Side {
        (time, replica) > (stored.time, stored.replica) ? .incoming : .stored
    }
}
