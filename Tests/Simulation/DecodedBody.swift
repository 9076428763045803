import AnnalsCore
import AnnalsWire

/// One transaction's content, out of the bytes in which stores and batches keep it.
struct DecodedBody {
    var info: TransactionInfo
    var changes: [Change] = []
    var journal: [JournalEntry]
    var policies: [PolicySetting] = []
    var resolutions: [ConflictResolution] = []

    init(info: TransactionInfo, changes: [Change], journal: [JournalEntry]) {
        self.info = info
        self.changes = changes
        self.journal = journal
    }

    init(_ body: [UInt8], table: (Int) -> String?) throws {
        var reader = try BodyReader(bytes: body)
        info = reader.info
        for (reference, changes) in try decodeChanges(body) {
            guard let table = table(reference) else { throw Violation("law 3", "a body names table \(reference), which nobody knows") }
            self.changes += changes.map { Change(table: table, $0) }
        }
        let rest = try reader.rest()
        (journal, policies, resolutions) = (rest.journal, rest.policies, rest.resolutions)
    }

    /// Goes on with the next part of the same transaction.
    mutating func append(_ part: DecodedBody) throws(Violation) {
        guard part.info == info else { throw Violation("law 6", "a part of \(info.id) says that it is of \(part.info.id)") }
        changes += part.changes
        journal += part.journal
        policies += part.policies
        resolutions += part.resolutions
    }
}
