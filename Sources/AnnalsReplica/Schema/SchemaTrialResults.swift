import AnnalsHistory
import AnnalsSchema
package import AnnalsWire

/// The results of the trials of a page's schema entries. The trials run before the write transaction that applies the page. So the file is
/// not locked while statements of other replicas are tested.
package struct SchemaTrialResults: Sendable {
    private var verdicts: [[String]: SchemaTrial.Refusal?] = [:]

    package init() {}

    /// - Throws: `CancellationError`, `DatabaseError`.
    package mutating func note(_ entry: SchemaEntry) throws {
        guard verdicts[entry.statements] == nil else { return }
        try Task.checkCancellation()
        verdicts[entry.statements] = .some(try SchemaTrial.refusal(of: entry.declarations))
    }

    /// nil if the entry has only declarations.
    package func verdict(on entry: SchemaEntry) throws -> SchemaTrial.Refusal? {
        if let verdict = verdicts[entry.statements] { return verdict }
        return try SchemaTrial.refusal(of: entry.declarations)
    }
}
