package import AnnalsCore

/// The results of an attempt to apply a page that was rolled back.
package struct PageAttempt {
    /// The trial results of its schema entries; nil if none was found.
    package var tried: SchemaTrialResults?
    /// The whole outbox is undone and repeated. If an entry does not fit rows with unsent changes, its footprint may claim less than
    /// it changes. Then certification finds no conflict with the outbox.
    package var undoesOutbox = false
    /// The outbox is repeated on tables with all constraints of this store, also those that the space does not have yet. Otherwise rows of
    /// the outbox could violate them together with rows of the space, as two rows with one unique value do. Such conflicts are settled.
    package var enforcesConstraints = false
    /// What differed in the tables that were rebuilt last, because the space has removed constraints; nil if none was.
    package var rebuilt: String?

    package init(tried: SchemaTrialResults? = nil, undoesOutbox: Bool = false) {
        self.tried = tried
        self.undoesOutbox = undoesOutbox
    }

    /// Whether an entry that was refused for this reason may fit the rows without the outbox.
    package static func mayFitWithoutOutbox(_ entry: RefusedEntry) -> Bool {
        switch entry.rule {
        case .check, .foreignKey, .unique, .notNull, .constraint, .missingRow, .otherValue: true
        case .damagedBatch, .wrongDigest, .badSignature, .badSeal, .missingKey, .badSchema, .badFootprint, .badValue: false
        }
    }
}
