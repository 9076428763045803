import AnnalsCore
import AnnalsSync

extension JSON {
    /// The JSON of an error about a log entry or of a relay's refusal; nil for other errors, which are printed on standard
    /// error only.
    static func refusal(_ error: any Error) -> JSON? {
        guard let error = (error as? TransportError)?.annalsError ?? error as? AnnalsError else { return nil }
        guard error.entry != nil || error.requestID != nil else { return nil }
        let json = JSON.object([
            "code": .text(error.code.rawValue), "message": .text(error.message), "hint": .text(error.commandHint ?? error.hint),
            "request": .text(error.requestID),
        ])
        return error.entry.map { json.adding(["entry": entry($0)]) } ?? json
    }

    private static func entry(_ entry: RefusedEntry) -> JSON {
        .object([
            "position": .integer(entry.position.rawValue), "rule": .text(entry.rule.rawValue), "author": .text(entry.author?.description),
            "authorName": .text(entry.authorName), "transaction": .text(entry.transaction?.description),
            "digest": .text(entry.digest?.description), "table": .text(entry.table),
            "keyColumns": .array(entry.keyColumns.map { .text($0) }), "column": .text(entry.column),
        ])
    }
}
