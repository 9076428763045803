package import AnnalsSchema

/// Why a table is not tracked, with a message for people.
public enum Refusal: Error, Hashable, Sendable {
    case missing
    case noPrimaryKey
    case view
    case virtual
    case shadow
    case tooManyColumns(count: Int, limit: Int)
    /// The key may hold NULL, and columns have all names of the rowid, which would identify such rows.
    case rowidOutOfReach
    /// The key uses a collation that only the program that created the table has.
    case unknownCollation(String)
    /// The store is in a space, and other replicas may not have a function or collation that the table uses. The value says what uses it.
    case notEverywhere(String)
    /// A foreign key refers to a table that is not tracked; `exists` says whether the table exists.
    case untrackedParent(String, exists: Bool)
    /// A foreign key has a generated column on one side. So other columns than those of the key decide what a row refers to.
    case generatedReference(parent: String)
    /// A table with the internal data of a migration tool or a framework. It is tracked if it is named explicitly.
    case bookkeeping(of: String)
    /// The space has removed the table. It becomes a new table of the space if it is named explicitly.
    case removedFromSpace
    /// A table of Annals.
    case own
    /// SQLite cannot compile writes to the table with the capture triggers on it; the value is SQLite's message.
    case cannotBeWritten(String)

    /// A problem of the table itself, without regard to other tables; nil if it can be tracked.
    package static func ofTable(_ table: DeclaredTable) -> Refusal? {
        if StoreSchema.isOwnName(table.name) { return .own }
        switch table.kind {
        case .view: return .view
        case .virtual: return .virtual
        case .shadow: return .shadow
        case .table: break
        }
        if table.primaryKey.isEmpty { return .noPrimaryKey }
        if table.columns.count > HistoryLimits.trackedColumns {
            return .tooManyColumns(count: table.columns.count, limit: HistoryLimits.trackedColumns)
        }
        if table.keyMayBeNull && table.rowidName == nil { return .rowidOutOfReach }
        return nil
    }

    /// One sentence that says what is wrong and what to do.
    public var message: String {
        switch self {
        case .missing:
            "there is no such table"
        case .noPrimaryKey:
            "it has no primary key that identifies its rows; rebuild it with one, for example "
                + "CREATE TABLE new(id INTEGER PRIMARY KEY, …), copy the rows, drop the old table and rename the new one"
        case .view:
            "it is a view; track the tables it reads"
        case .virtual:
            "it is a virtual table, and SQLite allows no triggers on it; track the table that fills it"
        case .shadow:
            "it is an internal table of a virtual table, which rebuilds it"
        case .tooManyColumns(let count, let limit):
            "it has \(count) columns, and the limit is \(limit): a change stores each column twice, and SQLite allows 2000 in a table"
        case .rowidOutOfReach:
            "its key may be NULL, and its columns use all three names of the rowid; declare the key's columns NOT NULL"
        case .unknownCollation(let name):
            "its rows are looked up with the collation \(name), which this program does not have; track it from a program that has it"
        case .notEverywhere(let uses):
            "the other replicas of the space may not be able to create it: \(uses); declare the table without it"
        case .untrackedParent(let parent, exists: true):
            "its foreign key refers to \(parent), which is not tracked; track that table too"
        case .untrackedParent(let parent, exists: false):
            "its foreign key refers to \(parent), which does not exist"
        case .generatedReference(let parent):
            "its foreign key to \(parent) has a generated column, which a merge cannot maintain; use ordinary columns"
        case .bookkeeping(let owner):
            "it is an internal table of \(owner); name it to track it anyway"
        case .removedFromSpace:
            "the space has removed it; drop it, or name it to give it to the space as a new table"
        case .own:
            "it is one of Annals' own tables"
        case .cannotBeWritten(let words):
            "the SQLite of this program cannot capture its changes: \(words)"
        }
    }
}
