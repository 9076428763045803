import AnnalsCore

extension Value {
    /// Bytes of a text or a blob; other values are small.
    var byteCount: Int {
        switch self {
        case .text(let content), .blob(let content): content.count
        case .null, .integer, .real: 0
        }
    }
}

extension JournalEntry {
    /// Bytes of its values.
    var byteCount: Int {
        [key, base ?? [], stored ?? [], incoming ?? []].joined().reduce(0) { $0 + $1.byteCount }
    }
}
