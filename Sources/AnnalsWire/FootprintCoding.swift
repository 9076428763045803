package import AnnalsCore

// A footprint is small, and the relay reads one for every transaction. So the encoding is simple: hashes of eight bytes
// each, ascending. The ascending order makes the encoding unique. The digest covers it.

extension Footprint {
    private static let everythingFlag: UInt8 = 1
    private static let writesWholeFlag: UInt8 = 1
    private static let readsWholeFlag: UInt8 = 2
    /// A group has at least its table, its flags and two counts.
    private static let minimumGroupBytes = 11

    /// Encodes the footprint in its only encoding. Groups and hashes are sorted first if necessary.
    package func encode() -> [UInt8] {
        var writer = ByteWriter()
        encode(into: &writer)
        return writer.bytes
    }

    package func encode(into writer: inout ByteWriter) {
        let footprint = isNormal ? self : normalized()
        writer.varint(UInt64(footprint.rules))
        writer.varint(footprint.keyID)
        writer.byte(footprint.everything ? Self.everythingFlag : 0)
        writer.varint(footprint.groups.count)
        for group in footprint.groups {
            writer.fixed64LE(group.table)
            writer.byte((group.writesWhole ? Self.writesWholeFlag : 0) | (group.readsWhole ? Self.readsWholeFlag : 0))
            writer.fixed64LEs(group.writes)
            writer.fixed64LEs(group.reads)
        }
    }

    /// Decodes a footprint that fills `bytes`.
    package static func decode(_ bytes: [UInt8]) throws(WireError) -> Footprint {
        var reader = ByteReader(bytes)
        let footprint = try decode(from: &reader)
        try reader.expectEnd()
        return footprint
    }

    package static func decode(from reader: inout ByteReader) throws(WireError) -> Footprint {
        guard let rules = UInt16(exactly: try reader.readVarint()) else { throw .badValue("footprint") }
        let keyID = try reader.readVarint()
        let everything = try reader.readFlags(allowed: everythingFlag) != 0
        let count = try reader.readCount(minimumBytes: minimumGroupBytes)
        guard !everything || count == 0 else { throw .badValue("footprint") }
        var groups: [Group] = []
        groups.reserveCapacity(count)
        for _ in 0..<count {
            let group = try decodeGroup(from: &reader)
            if let last = groups.last, last.table >= group.table { throw .badValue("footprint") }
            groups.append(group)
        }
        return Footprint(rules: rules, keyID: keyID, everything: everything, groups: groups)
    }

    private static func decodeGroup(from reader: inout ByteReader) throws(WireError) -> Group {
        let table = try reader.readFixed64LE()
        let flags = try reader.readFlags(allowed: writesWholeFlag | readsWholeFlag)
        let writes = try reader.readFixed64LEs()
        let reads = try reader.readFixed64LEs()
        let group = Group(
            table: table, writesWhole: flags & writesWholeFlag != 0, readsWhole: flags & readsWholeFlag != 0, writes: writes, reads: reads)
        guard group.isNormal else { throw .badValue("footprint") }
        return group
    }
}

extension Footprint {
    /// The same footprint in normal form: groups and hashes ascend, without duplicates, without empty groups, and
    /// without single hashes where the whole table is named.
    package func normalized() -> Footprint {
        if everything { return Footprint(rules: rules, keyID: keyID, everything: true) }
        var merged: [UInt64: Group] = [:]
        for group in groups {
            var union = merged[group.table] ?? Group(table: group.table)
            union.writesWhole = union.writesWhole || group.writesWhole
            union.readsWhole = union.readsWhole || group.readsWhole
            union.writes += group.writes
            union.reads += group.reads
            merged[group.table] = union
        }
        let ordered = merged.values.map { $0.normalized() }.filter { !$0.isEmpty }.sorted { $0.table < $1.table }
        return Footprint(rules: rules, keyID: keyID, groups: ordered)
    }

    /// Whether the footprint is in the encoded form.
    package var isNormal: Bool {
        if everything { return groups.isEmpty }
        return groups.allSatisfy { $0.isNormal } && zip(groups, groups.dropFirst()).allSatisfy { $0.table < $1.table }
    }

    /// The number of hashes in the footprint.
    package var hashCount: Int {
        groups.reduce(0) { $0 + $1.writes.count + $1.reads.count }
    }
}

extension Footprint.Group {
    var isEmpty: Bool {
        writes.isEmpty && reads.isEmpty && !writesWhole && !readsWhole
    }

    var isNormal: Bool {
        !isEmpty && Self.ascends(writes) && Self.ascends(reads) && (!writesWhole || writes.isEmpty) && (!readsWhole || reads.isEmpty)
    }

    func normalized() -> Self {
        Self(
            table: table, writesWhole: writesWhole, readsWhole: readsWhole, writes: writesWhole ? [] : Self.ascending(writes),
            reads: readsWhole ? [] : Self.ascending(reads))
    }

    private static func ascends(_ hashes: [UInt64]) -> Bool {
        guard var last = hashes.first else { return true }
        for hash in hashes.dropFirst() {
            guard last < hash else { return false }
            last = hash
        }
        return true
    }

    private static func ascending(_ hashes: [UInt64]) -> [UInt64] {
        ascends(hashes) ? hashes : Set(hashes).sorted()
    }
}
