package import AnnalsCore

/// What is known of a page from an attempt to apply it that was rolled back.
package struct PageAttempt {
    /// Its schema entries were tried; nil where none has come up.
    package var tried: SchemaTrialResults?
    /// The whole outbox is undone and laid anew. Where an entry does not fit rows that hold unsent work, the reason may be a footprint that
    /// says less than the entry does: then nothing of the page meets the outbox.
    package var undoesOutbox = false

    package init(tried: SchemaTrialResults? = nil, undoesOutbox: Bool = false) {
        self.tried = tried
        self.undoesOutbox = undoesOutbox
    }

    /// Whether an entry that is refused so may fit the rows as they are without the outbox.
    package static func mayFitWithoutOutbox(_ entry: RefusedEntry) -> Bool {
        switch entry.rule {
        case .check, .foreignKey, .unique, .notNull, .constraint, .missingRow, .otherValue: true
        case .damagedBatch, .wrongDigest, .badSignature, .badSeal, .missingKey, .badSchema, .badFootprint, .badValue: false
        }
    }
}
