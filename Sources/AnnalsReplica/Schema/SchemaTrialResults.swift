import AnnalsHistory
package import AnnalsWire

/// What the trial of a page's schema entries came to, so that it runs before the write transaction that applies the page: while
/// statements that come from elsewhere are read, nobody waits for the file.
package struct SchemaTrialResults: Sendable {
    private var verdicts: [[String]: SchemaTrial.Refusal?] = [:]

    package init() {}

    /// - Throws: `CancellationError`, `DatabaseError`.
    package mutating func note(_ entry: SchemaEntry) throws {
        guard verdicts[entry.statements] == nil else { return }
        try Task.checkCancellation()
        verdicts[entry.statements] = .some(try SchemaTrial.refusal(of: entry.statements))
    }

    /// nil where the entry only declares.
    package func verdict(on entry: SchemaEntry) throws -> SchemaTrial.Refusal? {
        if let verdict = verdicts[entry.statements] { return verdict }
        return try SchemaTrial.refusal(of: entry.statements)
    }
}
