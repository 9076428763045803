import AnnalsCore
import AnnalsWire

/// The content of one transaction, decoded from the bytes that stores and batches hold.
struct DecodedBody {
    var info: TransactionInfo
    var changes: [Change] = []
    var journal: [JournalEntry]
    var policies: [PolicySetting] = []
    var resolutions: [ConflictResolution] = []
    var hasSchema = false

    init(info: TransactionInfo, changes: [Change], journal: [JournalEntry]) {
        self.info = info
        self.changes = changes
        self.journal = journal
    }

    /// Decodes the whole body from the start of a reader.
    init(_ body: BodyReader, table: (Int) -> String?) throws {
        var reader = body
        info = reader.info
        for (reference, changes) in try decodeChanges(body.bytes) {
            guard let table = table(reference) else { throw Violation("law 3", "a body names table \(reference), which nobody knows") }
            self.changes += changes.map { Change(table: table, $0) }
        }
        let rest = try reader.rest()
        (journal, policies, resolutions) = (rest.journal, rest.policies, rest.resolutions)
        // The first version is that of the space at its beginning.
        hasSchema = (rest.schema?.version ?? 1) > 1
    }

    /// Adds the next part of the same transaction.
    mutating func append(_ part: DecodedBody) throws(Violation) {
        guard part.info == info else { throw Violation("law 6", "a part of \(info.id) says that it is of \(part.info.id)") }
        changes += part.changes
        journal += part.journal
        policies += part.policies
        resolutions += part.resolutions
        hasSchema = hasSchema || part.hasSchema
    }
}

/// Joins bodies that were cut into pieces, part by part.
struct GatheredPieces {
    private var joined: JoinedBody?

    /// Whether a body has begun and is not complete.
    var isAmid: Bool { joined != nil }

    /// Adds the body of the next part; returns nil if more of it follows.
    ///
    /// - Parameter parts: the number of parts from this one on.
    mutating func add(_ body: [UInt8], parts: Int) throws -> BodyReader? {
        let part = try BodyReader(bytes: body)
        if joined == nil {
            guard try part.piece() != nil else { return part }
            joined = try JoinedBody(part, partsAtMost: parts)
        } else {
            try joined?.add(part)
        }
        guard let whole = joined, whole.isWhole else { return nil }
        joined = nil
        return try whole.reader()
    }
}
