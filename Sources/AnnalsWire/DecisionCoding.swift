internal import AnnalsCore

// User decisions have their own sections in a transaction: one for policies that it sets, one for conflicts that it
// resolves, one for references that the schema does not declare.

/// Which optional parts of a policy setting are present.
private enum PolicyFlag {
    static let table: UInt8 = 1
    static let column: UInt8 = 2
}

/// What a reference setting decides.
private enum ReferenceCode {
    static let undecided: UInt8 = 0
    static let none: UInt8 = 1
    static let refers: UInt8 = 2
    static let refersUnderCondition: UInt8 = 3
}

extension ByteWriter {
    mutating func policySetting(_ setting: PolicySetting) {
        byte(setting.aspect.rawValue)
        byte((setting.table == nil ? 0 : PolicyFlag.table) | (setting.column == nil ? 0 : PolicyFlag.column))
        if let table = setting.table { string(table) }
        if let column = setting.column { string(column) }
        string(setting.policy)
    }

    mutating func referenceSetting(_ setting: ReferenceSetting) {
        string(setting.table)
        names(setting.columns)
        switch setting.decision {
        case .undecided: byte(ReferenceCode.undecided)
        case .none: byte(ReferenceCode.none)
        case .refers(let target):
            byte(target.condition == nil ? ReferenceCode.refers : ReferenceCode.refersUnderCondition)
            string(target.table)
            names(target.columns)
            byte(target.onDelete.rawValue)
            if let condition = target.condition { string(condition) }
        }
    }

    private mutating func names(_ names: [String]) {
        varint(names.count)
        for name in names { string(name) }
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

    mutating func readReferenceSetting() throws(WireError) -> ReferenceSetting {
        let table = try readString()
        let columns = try readNames()
        switch try readByte() {
        case ReferenceCode.undecided: return ReferenceSetting(table: table, columns: columns, .undecided)
        case ReferenceCode.none: return ReferenceSetting(table: table, columns: columns, .none)
        case ReferenceCode.refers: return ReferenceSetting(table: table, columns: columns, to: try readTarget(columns.count))
        case ReferenceCode.refersUnderCondition:
            var target = try readTarget(columns.count)
            target.condition = try readString()
            return ReferenceSetting(table: table, columns: columns, to: target)
        default: throw .badValue("reference")
        }
    }

    private mutating func readTarget(_ count: Int) throws(WireError) -> ReferenceTarget {
        let table = try readString()
        let columns = try readNames()
        guard columns.count == count, let action = ReferenceTarget.DeleteAction(rawValue: try readByte()) else {
            throw .badValue("reference")
        }
        return ReferenceTarget(table: table, columns: columns, onDelete: action)
    }

    private mutating func readNames() throws(WireError) -> [String] {
        try readItems("reference", limit: WireLimits.maximumReferenceColumns) { reader throws(WireError) in try reader.readString() }
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
