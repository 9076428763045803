import AnnalsCore
import AnnalsWire

/// Computes the correct rows at every position of the log, and checks the log itself.
///
/// It applies the log to plain dictionaries. From the product it uses only the decoder of the wire format and its value types,
/// because it must read the log's bytes.
struct Oracle {
    /// One transaction of the log, or a part of one. A transaction in parts takes effect with its last part. The other parts have no
    /// effect.
    struct Entry: Sendable {
        var position: Int64
        /// The positions of all parts of its transaction; for most transactions only its own position.
        var span: ClosedRange<Int64>
        var replica: ReplicaID
        var base: Int64
        var receivedAt: Int64
        var info: TransactionInfo
        var changes: [Change]
        var journal: [JournalEntry]
        var policies: [PolicySetting] = []
        var resolutions: [ConflictResolution] = []
        /// It brings another schema to the space.
        var hasSchema = false
        /// It represents everything that a replica missed before it resynced from a snapshot; authors and times are unknown.
        var isSnapshot = false

        /// Whether it completes its transaction.
        var isWhole: Bool { position == span.upperBound }
    }

    let schema: Schema
    private var constraints: Constraints
    /// Whether the log has the schema entry of the schema's changed constraint.
    private(set) var isChanged = false
    /// Programs have removed the constraint again, and the entry that added it may have been on its way.
    var mayBeUndone = false
    private let cipher: SpaceCipher?
    private(set) var entries: [Entry] = []
    /// The rows at each position, including 0.
    private var states: [Rows]
    private var positions: [TransactionID: Int64] = [:]
    /// Transactions that a copied file may push although another copy pushed them, because that part of the log was purged.
    private var repeatable: Set<TransactionID> = []
    /// The parts of a transaction whose last part has not arrived.
    private var gathered: GatheredParts?

    /// - Parameter cipher: the space's cipher, if the space is encrypted.
    init(schema: Schema, rows: Rows, cipher: SpaceCipher? = nil) throws(Violation) {
        self.schema = schema
        self.cipher = cipher
        constraints = Constraints(schema: schema)
        states = [rows]
        try constraints.check(rows)
    }

    var head: Int64 { Int64(entries.count) }

    func rows(at position: Int64) -> Rows { states[Int(position)] }

    func entry(at position: Int64) -> Entry { entries[Int(position) - 1] }

    func position(of transaction: TransactionID) -> Int64? { positions[transaction] }

    /// Whether a position is between the parts of one transaction. No replica may be there (law 6).
    func isInside(_ position: Int64) -> Bool { position > 0 && !entry(at: position).isWhole }

    /// Whether these are the first parts of a transaction, directly after a position, but not all of them.
    func isBeginning(_ kept: [Int64], after position: Int64) -> Bool {
        guard let last = kept.last, kept == Array(position + 1...max(last, position + 1)), last <= head else { return false }
        return isInside(last) && entry(at: last).span.lowerBound == position + 1
    }

    mutating func allowRepeating(_ transaction: TransactionID) {
        repeatable.insert(transaction)
    }

    /// Adds the new entries of the log, which must end with a whole transaction.
    mutating func absorb(_ frames: [LogFrame]) throws(Violation) {
        for frame in frames where frame.lastPosition.rawValue > head {
            do {
                let batch = try frame.open(cipher: cipher)
                for index in frame.firstIndex..<frame.firstIndex + frame.acceptedCount {
                    guard let position = frame.position(of: index)?.rawValue, position > head else { continue }
                    try take(batch, index, position, frame.receivedAt)
                }
            } catch let error as Violation {
                throw error
            } catch {
                throw Violation("law 3", "position \(head + 1) of the log cannot be read: \(error)")
            }
        }
        if let gathered { throw Violation("law 6", "the log ends at \(head), and \(gathered.text) is not whole") }
    }

    private mutating func take(_ batch: Batch, _ index: Int, _ position: Int64, _ receivedAt: Int64) throws {
        var parts = try gathered?.adding(batch, at: position) ?? GatheredParts(batch, at: position)
        let body = Array(batch.plain[batch.bodyRange(index)])
        try parts.add(body) { batch.layouts[$0]?.name }
        guard let info = parts.info else { throw Violation("simulator", "no part was added") }
        var entry = Entry(
            position: position, span: parts.span, replica: batch.header.replica, base: batch.header.certificates[index].base.rawValue,
            receivedAt: receivedAt, info: info, changes: [], journal: [])
        gathered = entry.isWhole ? nil : parts
        if entry.isWhole {
            let content = try parts.content
            (entry.changes, entry.journal) = (content.changes, content.journal)
            (entry.policies, entry.resolutions) = (content.policies, content.resolutions)
            entry.hasSchema = content.hasSchema
        }
        try append(entry)
    }

    private mutating func changeConstraints() throws(Violation) {
        guard let changed = schema.changed, !isChanged || mayBeUndone else {
            throw Violation("schema", "the log has a schema entry that no program caused")
        }
        isChanged.toggle()
        constraints = Constraints(schema: isChanged ? changed : schema)
    }

    private mutating func append(_ entry: Entry) throws(Violation) {
        guard entry.position == head + 1 else { throw Violation("law 3", "position \(entry.position) comes after \(head)") }
        var rows = rows(at: head)
        if entry.isWhole {
            if let earlier = positions[entry.info.id], repeatable.remove(entry.info.id) == nil {
                throw Violation("law 7", "transaction \(entry.info.id) stands at \(earlier) and at \(entry.position)")
            }
            do {
                try rows.apply(entry.changes, schema)
                if entry.hasSchema { try changeConstraints() }
                try constraints.check(rows)
            } catch {
                throw Violation(error.law, "at position \(entry.position) of the log: \(error.text)")
            }
            positions[entry.info.id] = entry.position
        }
        entries.append(entry)
        states.append(rows)
    }
}

extension Change {
    init(table: String, _ marked: MarkedChange) {
        self.table = table
        if case .revived(_, let changed)? = marked.mark {
            revived = changed.map { Update(column: $0.column, old: Cell($0.old), new: Cell($0.new)) }
        }
        isSetAside = marked.mark == .setAside
        age.milliseconds = marked.age
        kind =
            switch marked.change {
            case .insert(let row): .insert(row.map { Cell($0) })
            case .delete(let row): .delete(row.map { Cell($0) })
            case .update(let key, let columns):
                .update(
                    key: key.map { Cell($0) }, columns.map { Update(column: $0.column, old: Cell($0.old), new: Cell($0.new)) })
            }
    }
}

extension Cell {
    init(_ value: Value) {
        self =
            switch value {
            case .null: .null
            case .integer(let value): .integer(value)
            case .real(let value): .real(value + 0)
            case .text(let text): .text(text.bytes)
            case .blob(let blob): .blob(blob.bytes)
            }
    }
}
