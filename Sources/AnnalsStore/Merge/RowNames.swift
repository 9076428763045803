import AnnalsCore
import AnnalsMerge

/// What outbox transactions call rows that the rebase had to call otherwise. Nothing of it outlives the rebase:
/// afterwards the outbox calls rows by the keys they have.
struct RowNames {
    enum Name: Hashable {
        case now(key: [Value])
        case setAside
    }

    private var names: [RowReference: Name] = [:]

    subscript(row: RowReference) -> Name? {
        get { names[row] }
        set { names[row] = newValue }
    }

    var isEmpty: Bool { names.isEmpty }
}

/// Where the row is that an outbox transaction means by a key.
enum Fate {
    /// It lives, under this key now.
    case alive(key: [Value], row: [Value])
    /// It was made one with another row, or withdrawn.
    case setAside
    case dead(Marks.Tombstone)
    /// No such row is known.
    case nothing
}
