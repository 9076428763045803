internal import AnnalsCore

/// Which optional parts of a journal entry are present, and which side won.
private enum JournalFlag {
    static let base: UInt8 = 1
    static let stored: UInt8 = 2
    static let incoming: UInt8 = 4
    static let replica: UInt8 = 8
    static let time: UInt8 = 16
    static let position: UInt8 = 32
    static let incomingWon: UInt8 = 64
    static let incomingTime: UInt8 = 128
}

extension ByteWriter {
    mutating func journalEntry(_ entry: JournalEntry) {
        var flags: UInt8 = entry.winner == .incoming ? JournalFlag.incomingWon : 0
        if entry.base != nil { flags |= JournalFlag.base }
        if entry.stored != nil { flags |= JournalFlag.stored }
        if entry.incoming != nil { flags |= JournalFlag.incoming }
        if entry.storedReplica != nil { flags |= JournalFlag.replica }
        if entry.storedTime != nil { flags |= JournalFlag.time }
        if entry.storedPosition != nil { flags |= JournalFlag.position }
        if entry.incomingTime != nil { flags |= JournalFlag.incomingTime }
        byte(entry.kind.rawValue)
        byte(flags)
        string(entry.table)
        values(entry.key)
        strings(entry.columns)
        string(entry.policy)
        for part in [entry.base, entry.stored, entry.incoming] {
            if let part { values(part) }
        }
        if let replica = entry.storedReplica { identifier(replica) }
        if let time = entry.storedTime { self.time(time) }
        if let position = entry.storedPosition { self.position(position) }
        if let time = entry.incomingTime { self.time(time) }
    }
}

extension ByteReader {
    mutating func readJournalEntry() throws(WireError) -> JournalEntry {
        guard let kind = JournalEntry.Kind(rawValue: try readByte()) else { throw .badValue("journal entry") }
        let flags = try readByte()
        let table = try readString()
        let key = try readValues()
        let columns = try readStrings("columns", limit: WireLimits.maximumColumns)
        let policy = try readString()
        let base = flags & JournalFlag.base != 0 ? try readValues() : nil
        let stored = flags & JournalFlag.stored != 0 ? try readValues() : nil
        let incoming = flags & JournalFlag.incoming != 0 ? try readValues() : nil
        let replica = flags & JournalFlag.replica != 0 ? try readIdentifier(ReplicaID.self) : nil
        let time = flags & JournalFlag.time != 0 ? try readTime() : nil
        let position = flags & JournalFlag.position != 0 ? try readPosition() : nil
        let incomingTime = flags & JournalFlag.incomingTime != 0 ? try readTime() : nil
        return JournalEntry(
            kind: kind, table: table, key: key, columns: columns, policy: policy, base: base, stored: stored, incoming: incoming,
            winner: flags & JournalFlag.incomingWon != 0 ? .incoming : .stored, storedReplica: replica, storedTime: time,
            storedPosition: position, incomingTime: incomingTime)
    }
}
