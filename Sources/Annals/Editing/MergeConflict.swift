public import AnnalsStore
public import GRDB

/// A row that was edited or deleted, and that others changed or deleted since it was read.
public struct MergeConflict: Sendable {
    public let identifier: PersistentIdentifier
    /// The row as it was read.
    public let base: RowSnapshot
    /// The row as it is to be saved; nil where it is to be deleted.
    public let mine: RowSnapshot?
    /// The row as it is stored; nil where it is gone.
    public let theirs: RowSnapshot?
    /// Columns that others changed since; none where the row is gone.
    public let theirColumns: Set<String>
    /// Columns that were edited; none where the row is to be deleted.
    public let myColumns: Set<String>
    /// Columns that both changed, to different values.
    public let conflictingColumns: Set<String>
    /// What a resolver decided.
    public var resolution = Resolution.unresolved

    public enum Resolution: Sendable {
        case unresolved
        /// The stored row stays as it is; the edits of this row are dropped.
        case keepStore
        /// The edited row is saved with all its columns, or deleted where that was asked for. One that is gone comes back.
        case keepObject
        /// The stored row with these columns, by name; one that is gone comes back from the edited row.
        case values([String: DatabaseValue])
        case delete
    }
}

/// What a constraint refuses: a row that was to be saved, and why it cannot be.
public struct ConstraintConflict: Sendable {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A primary key, a UNIQUE constraint or a unique index.
        case unique
        /// A parent that is not there, or a row that others refer to.
        case foreignKey
        case notNull
        case check
        /// A value that the column of a STRICT table, or an INTEGER PRIMARY KEY, does not take.
        case datatype
        /// What a trigger refused.
        case trigger
    }

    public let kind: Kind
    public let table: String
    /// The row that was to be saved; nil where a statement of the app's own was refused.
    public let identifier: PersistentIdentifier?
    /// A CHECK's name or expression, the parent's table of a foreign key, a trigger's message, the name of an index over
    /// expressions.
    public let name: String?
    /// The constraint's columns.
    public let columns: [String]
    /// What the row was to hold in them.
    public let values: [String: DatabaseValue]
    /// The row that was to be saved; nil where it was to be deleted.
    public let mine: RowSnapshot?
    /// The rows that are in the way: holders of unique values, or rows that refer to one that was to be deleted.
    public let others: [StoredRow]
    /// What a resolver decided; only of kind `unique`.
    public var resolution = Resolution.unresolved

    public enum Resolution: Sendable {
        case unresolved
        /// The stored row stays. A new row is dropped for it; an edited row keeps the constraint's columns as they are stored.
        case keepStore
        /// The values of a new row go into the stored row, which keeps its key. For an edited row the stored one is deleted.
        case keepObject
        /// The row is saved with these columns instead, by name.
        case values([String: DatabaseValue])
    }

}
