package import AnnalsCore

/// The key for the hashes of a space's footprints.
package struct FootprintKey: Hashable, Sendable {
    /// The number of the key in footprints. Zero for spaces without a key.
    package var id: UInt64
    /// The first eight and the last eight of the key's 16 bytes, each read as a little-endian number.
    package var low: UInt64
    package var high: UInt64

    package init(id: UInt64, low: UInt64, high: UInt64) {
        self.id = id
        self.low = low
        self.high = high
    }

    /// The key of spaces without a key. Their relay can guess hashed values, but it can read the values anyway.
    package static let none = FootprintKey(id: 0, low: 0, high: 0)
}

/// Computes the hashes of footprints.
///
/// The caller passes values as the index compares them: with the affinity of the parent's column applied, and text
/// folded by its collation. This type only turns reals with an integral value into integers. So values that are equal
/// in the index have equal hashes. Names are folded from A–Z to a–z, as SQLite compares them. An index is identified by
/// its columns, in any order, and never by its name. So the same UNIQUE constraint has the same hashes on every
/// replica, and a foreign key that refers to it, too.
package struct FootprintHash: Sendable {
    /// The first byte of the hashed input. It keeps the hashes of tables, rows and other kinds different.
    private enum Kind {
        static let table: UInt8 = 1
        static let row: UInt8 = 2
        static let tuple: UInt8 = 3
        static let index: UInt8 = 4
        static let transaction: UInt8 = 5
        static let schema: UInt8 = 6
        static let conflict: UInt8 = 7
    }

    private let seed: SipHash

    package init(key: FootprintKey = .none) {
        seed = SipHash(key: (key.low, key.high))
    }

    /// The hash of a table. It groups the hashes of the table's rows and tuples.
    package func tableHash(_ table: String) -> UInt64 {
        start(Kind.table, table).finish()
    }

    /// The hash of a row by its primary key, in the order of the key.
    package func rowHash(table: String, key: [Value]) -> UInt64 {
        rows(of: table, keyColumns: key.count).hash { key[$0] }
    }

    /// The hash of a tuple of the primary key or of a unique index. `values` are in the order of `columns`, which can
    /// be any order.
    ///
    /// A tuple that contains NULL is not equal to any tuple and has no hash. The caller must leave it out.
    package func tupleHash(table: String, columns: [String], values: [Value]) -> UInt64 {
        precondition(columns.count == values.count, "a tuple has one value for each column")
        return tuples(of: table, columns: columns).hash { values[$0] }
    }

    /// The hash of a whole unique index. It is for indexes with tuples that cannot be hashed: partial indexes, indexes
    /// over expressions (the text of the expression replaces a column's name) and indexes with a collation of the
    /// program.
    package func indexHash(table: String, columns: [String]) -> UInt64 {
        var state = start(Kind.index, table)
        state.names(columns.map(Self.fold).sorted(by: Self.precedes))
        return state.finish()
    }

    /// The hash of a transaction's id. Its group is `transactionGroup`.
    package func idHash(_ id: TransactionID) -> UInt64 {
        var state = seed
        state.update(Kind.transaction)
        state.bigEndian(id.high)
        state.bigEndian(id.low)
        return state.finish()
    }

    /// The group of all hashes by `idHash`.
    package var transactionGroup: UInt64 { single(Kind.transaction) }

    /// The one hash of all additive schema entries. It is also their group.
    package var schemaHash: UInt64 { single(Kind.schema) }

    /// The hash of a conflict that a transaction resolves. Its group is `conflictGroup`.
    package func conflictHash(_ conflict: ConflictID) -> UInt64 {
        var state = seed
        state.update(Kind.conflict)
        for word in [conflict.replica.high, conflict.replica.low, conflict.transaction.high, conflict.transaction.low] {
            state.bigEndian(word)
        }
        state.varint(UInt64(conflict.index))
        return state.finish()
    }

    /// The group of all hashes by `conflictHash`.
    package var conflictGroup: UInt64 { single(Kind.conflict) }

    /// A hasher for many rows of one table. Values are in the order of the key.
    package func rows(of table: String, keyColumns: Int) -> Tuples {
        Tuples(state: start(Kind.row, table), order: Array(0..<keyColumns))
    }

    /// A hasher for many tuples of one index. Values are in the order of `columns`.
    package func tuples(of table: String, columns: [String]) -> Tuples {
        let names = columns.map(Self.fold)
        let order = names.indices.sorted { Self.precedes(names[$0], names[$1]) }
        var state = start(Kind.tuple, table)
        state.names(order.map { names[$0] })
        return Tuples(state: state, order: order)
    }

    /// Hashes the values of one table and index.
    package struct Tuples: Sendable {
        fileprivate let state: SipHash
        /// The indexes of the values, in the order in which they are hashed.
        fileprivate let order: [Int]

        /// - Parameter value: returns the value at an index. Indexes refer to the columns that were passed when this
        ///   hasher was made.
        package func hash(_ value: (Int) -> Value) -> UInt64 {
            var state = state
            for columnIndex in order { state.value(value(columnIndex)) }
            return state.finish()
        }
    }

    private func single(_ kind: UInt8) -> UInt64 {
        var state = seed
        state.update(kind)
        return state.finish()
    }

    private func start(_ kind: UInt8, _ table: String) -> SipHash {
        var state = seed
        state.update(kind)
        state.name(Self.fold(table))
        return state
    }

    private static func fold(_ name: String) -> [UInt8] {
        name.utf8.map { $0.asciiLowercased }
    }

    private static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.lexicographicallyPrecedes(right)
    }
}

extension SipHash {
    fileprivate mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            update(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        update(UInt8(truncatingIfNeeded: rest))
    }

    fileprivate mutating func bigEndian(_ word: UInt64) {
        withUnsafeBytes(of: word.bigEndian) { update($0) }
    }

    fileprivate mutating func name(_ name: [UInt8]) {
        varint(UInt64(name.count))
        name.withUnsafeBytes { update($0) }
    }

    fileprivate mutating func names(_ names: [[UInt8]]) {
        varint(UInt64(names.count))
        for name in names { self.name(name) }
    }

    /// Hashes the value in the encoding of bodies, except reals with an integral value.
    fileprivate mutating func value(_ value: Value) {
        switch value {
        case .null: update(ValueTag.null)
        case .integer(let integer): self.integer(integer)
        case .real(let real): self.real(real)
        case .text(let text): content(text.bytes, short: ValueTag.shortText, upTo: ValueTag.shortTextBytes, long: ValueTag.text)
        case .blob(let blob): content(blob.bytes, short: ValueTag.shortBlob, upTo: ValueTag.shortBlobBytes, long: ValueTag.blob)
        }
    }

    private mutating func integer(_ integer: Int64) {
        if integer >= ValueTag.smallestSmall, integer <= ValueTag.largestSmall {
            update(ValueTag.smallInteger + UInt8(truncatingIfNeeded: integer - ValueTag.smallestSmall))
        } else {
            update(ValueTag.integer)
            varint(UInt64(bitPattern: (integer << 1) ^ (integer >> 63)))
        }
    }

    private mutating func real(_ real: Double) {
        if let integer = Int64(exactly: real) {
            self.integer(integer)
        } else if real.isNaN {
            update(ValueTag.null)
        } else {
            update(ValueTag.real)
            withUnsafeBytes(of: real.bitPattern.littleEndian) { update($0) }
        }
    }

    private mutating func content(_ bytes: [UInt8], short: UInt8, upTo shortBytes: Int, long: UInt8) {
        if bytes.count <= shortBytes {
            update(short + UInt8(truncatingIfNeeded: bytes.count))
        } else {
            update(long)
            varint(UInt64(bytes.count))
        }
        bytes.withUnsafeBytes { update($0) }
    }
}
