internal import AnnalsCore

// User decisions have their own sections in a transaction: one for policies that it sets, one for conflicts that it
// resolves.

/// Which optional parts of a policy setting are present.
private enum PolicyFlag {
    static let table: UInt8 = 1
    static let column: UInt8 = 2
}

extension ByteWriter {
    mutating func policySetting(_ setting: PolicySetting) {
        byte(setting.aspect.rawValue)
        byte((setting.table == nil ? 0 : PolicyFlag.table) | (setting.column == nil ? 0 : PolicyFlag.column))
        if let table = setting.table { string(table) }
        if let column = setting.column { string(column) }
        string(setting.policy)
    }

    mutating func resolution(_ resolution: ConflictResolution) {
        identifier(resolution.conflict.replica)
        identifier(resolution.conflict.transaction)
        varint(resolution.conflict.index)
        byte(resolution.choice.rawValue)
    }
}

extension ByteReader {
    mutating func readPolicySetting() throws(WireError) -> PolicySetting {
        guard let aspect = PolicySetting.Aspect(rawValue: try readByte()) else { throw .badValue("policy") }
        let flags = try readFlags(allowed: PolicyFlag.table | PolicyFlag.column)
        let table = flags & PolicyFlag.table != 0 ? try readString() : nil
        let column = flags & PolicyFlag.column != 0 ? try readString() : nil
        guard column == nil || (table != nil && aspect == .update) else { throw .badValue("policy") }
        return PolicySetting(table: table, column: column, aspect: aspect, policy: try readString())
    }

    mutating func readResolution() throws(WireError) -> ConflictResolution {
        let replica = try readIdentifier(ReplicaID.self)
        let transaction = try readIdentifier(TransactionID.self)
        let index = try readInt()
        guard let choice = ConflictResolution.Choice(rawValue: try readByte()) else { throw .badValue("resolution") }
        return ConflictResolution(
            conflict: ConflictID(replica: replica, transaction: transaction, index: index), choice: choice)
    }

    /// The items of a section. There is at least one item, and at most `limit`.
    mutating func readItems<Item>(_ name: String, limit: Int, _ read: (inout ByteReader) throws(WireError) -> Item) throws(WireError)
        -> [Item]
    {
        let count = try readCount()
        guard count > 0 else { throw .badValue(name) }
        guard count <= limit else { throw .tooLarge(name) }
        var items: [Item] = []
        for _ in 0..<count { items.append(try read(&self)) }
        return items
    }
}
