import AnnalsCore

/// What is known of a page from an attempt to apply it that was rolled back.
struct PageAttempt {
    /// Its schema entries were tried; nil where none has come up.
    var tried: TriedSchemas?
    /// The whole outbox is undone and laid anew. Where an entry does not fit rows that hold unsent work, the reason may be a footprint that
    /// says less than the entry does: then nothing of the page meets the outbox.
    var undoesOutbox = false

    /// Whether an entry that is refused so may fit the rows as they are without the outbox.
    static func mayFitWithoutOutbox(_ entry: RefusedEntry) -> Bool {
        switch entry.rule {
        case .check, .foreignKey, .unique, .notNull, .constraint, .missingRow, .otherValue: true
        case .damagedBatch, .wrongDigest, .badSignature, .badSeal, .missingKey, .badSchema, .badFootprint, .badValue: false
        }
    }
}
