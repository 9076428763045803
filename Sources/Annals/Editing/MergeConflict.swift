import AnnalsStore
public import GRDB

/// A row that was edited or deleted here, and that others changed or deleted since it was read.
public struct MergeConflict: Sendable {
    public let identifier: PersistentIdentifier
    /// The row as it was read.
    public let base: RowSnapshot
    /// The row as it is to be saved; nil if it is to be deleted.
    public let mine: RowSnapshot?
    /// The row as it is stored; nil if it no longer exists.
    public let theirs: RowSnapshot?
    /// Columns that others changed since the row was read; empty if the row no longer exists.
    public let theirColumns: Set<String>
    /// Columns that were edited here; empty if the row is to be deleted.
    public let myColumns: Set<String>
    /// Columns that both sides changed, to different values.
    public let conflictingColumns: Set<String>
    /// The decision of a resolver.
    public var resolution = Resolution.unresolved

    public enum Resolution: Sendable {
        case unresolved
        /// Keeps the stored row and drops the edits of this row.
        case keepStore
        /// Saves the edited row with all its columns, or deletes it if the edit was a delete. A row that no longer exists is
        /// inserted again.
        case keepObject
        /// Saves the stored row with these values, by column name. A row that no longer exists is inserted again from the edited
        /// row.
        case values([String: DatabaseValue])
        case delete
    }
}

/// A row that was to be saved, and the constraint that refuses it.
public struct ConstraintConflict: Sendable {
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A primary key, a UNIQUE constraint or a unique index.
        case unique
        /// The parent does not exist, or other rows refer to this row.
        case foreignKey
        case notNull
        case check
        /// The column of a STRICT table, or an INTEGER PRIMARY KEY, does not accept the value.
        case datatype
        /// A trigger refused the row.
        case trigger
    }

    public let kind: Kind
    public let table: String
    /// The row that was to be saved; nil if SQLite refused a statement of the app and did not say for which row.
    public let identifier: PersistentIdentifier?
    /// The name or expression of a CHECK, the parent table of a foreign key, the message of a trigger, or the name of an index
    /// over expressions.
    public let name: String?
    /// The columns of the constraint.
    public let columns: [String]
    /// The values that the row was to have in these columns.
    public let values: [String: DatabaseValue]
    /// The row that was to be saved; nil if it was to be deleted.
    public let mine: RowSnapshot?
    /// The rows that prevent the save: those that have the unique values, or those that refer to a row that was to be deleted.
    public let others: [StoredRow]
    /// The decision of a resolver. It has an effect only if `kind` is `unique`.
    public var resolution = Resolution.unresolved

    public enum Resolution: Sendable {
        case unresolved
        /// Keeps the stored row. A new row is dropped in favour of it. An edited row keeps the stored values in the constraint's
        /// columns.
        case keepStore
        /// Writes the values of a new row into the stored row, which keeps its key. For an edited row, the stored row is deleted.
        case keepObject
        /// Saves the row with these values instead, by column name.
        case values([String: DatabaseValue])
    }

}
