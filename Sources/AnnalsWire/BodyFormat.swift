internal import AnnalsCore

// A body is the content of one transaction: time and author, the tables that it refers to, then sections. It refers to
// tables by numbers that its author chose, and to columns by their indexes. So a store keeps bodies as they are, and a
// batch concatenates them without a new encoding. The head lists the tables in use. So a digest can cover exactly their
// layouts, and not those of other transactions in the batch.

/// The first byte of a section.
enum BodySection {
    static let end: UInt8 = 0
    static let table: UInt8 = 1
    static let journal: UInt8 = 2
    static let schema: UInt8 = 3
    static let policies: UInt8 = 4
    static let resolutions: UInt8 = 5
    static let voids: UInt8 = 6
    static let piece: UInt8 = 7
    static let references: UInt8 = 8
    static let ages: UInt8 = 9
}

/// The first byte of a change: its kind in the lower half, its mark in the upper half.
enum ChangeCode {
    static let end: UInt8 = 0
    static let insert: UInt8 = 1
    static let update: UInt8 = 2
    static let delete: UInt8 = 3

    static let merged: UInt8 = 0x10
    static let setAside: UInt8 = 0x20
    static let revived: UInt8 = 0x30
}

extension ByteWriter {
    mutating func transactionInfo(_ info: TransactionInfo) {
        identifier(info.id)
        time(info.time)
        byte(info.origin.rawValue)
        byte((info.author == nil ? 0 : 1) | (info.contextName == nil ? 0 : 2) | (info.replicaName == nil ? 0 : 4))
        if let author = info.author { string(author) }
        if let contextName = info.contextName { string(contextName) }
        if let replicaName = info.replicaName { string(replicaName) }
    }

    mutating func columnChanges(_ changes: [ColumnChange]) {
        varint(changes.count)
        for change in changes {
            varint(change.column)
            value(change.old)
            value(change.new)
        }
    }
}

extension ByteReader {
    mutating func readTransactionInfo() throws(WireError) -> TransactionInfo {
        let id = try readIdentifier(TransactionID.self)
        let time = try readTime()
        guard let origin = TransactionInfo.Origin(rawValue: try readByte()) else { throw .badValue("origin") }
        let flags = try readFlags(allowed: 7)
        let author = flags & 1 != 0 ? try readString() : nil
        let contextName = flags & 2 != 0 ? try readString() : nil
        let replicaName = flags & 4 != 0 ? try readString() : nil
        return TransactionInfo(
            id: id, time: time, author: author, replicaName: replicaName, contextName: contextName, origin: origin)
    }

    /// The numbers of the tables that a body refers to, ascending.
    mutating func readTableNumbers() throws(WireError) -> [Int] {
        let count = try readCount()
        guard count <= WireLimits.maximumTables else { throw .tooLarge("tables") }
        var numbers: [Int] = []
        for _ in 0..<count {
            let number = try readInt()
            if let last = numbers.last, last >= number { throw .badValue("table") }
            numbers.append(number)
        }
        return numbers
    }

    mutating func readColumnChanges() throws(WireError) -> [ColumnChange] {
        let count = try readColumnCount()
        var changes: [ColumnChange] = []
        for _ in 0..<count {
            let column = try readInt()
            guard column < WireLimits.maximumColumns, column > changes.last?.column ?? -1 else { throw .badValue("column") }
            changes.append(ColumnChange(column: column, old: try readValue(), new: try readValue()))
        }
        return changes
    }
}
