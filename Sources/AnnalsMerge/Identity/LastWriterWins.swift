package import AnnalsCore

/// The writer, time and position of a write. A rebase records it for the writes of other replicas.
package struct WriteMark: Hashable, Sendable {
    /// Already clamped to the receipt time of the entry + 60 s.
    package var time: HybridTime
    package var replica: ReplicaID
    package var position: Position
    /// Whether the transaction gave rows back earlier values; see `TransactionInfo.Origin.undo`.
    package var isUndo = false

    package init(time: HybridTime, replica: ReplicaID, position: Position, isUndo: Bool = false) {
        self.time = time
        self.replica = replica
        self.position = position
        self.isUndo = isUndo
    }
}

/// The later hybrid logical time wins. `ReplicaID` breaks ties.
package enum LastWriterWins {
    /// `time` and `replica` belong to the incoming change. `time` must be clamped to the relay's time + 60 s already.
    package static func winner(incoming time: HybridTime, of replica: ReplicaID, stored: WriteMark) -> JournalEntry.Side {
        (time, replica) > (stored.time, stored.replica) ? .incoming : .stored
    }
}
