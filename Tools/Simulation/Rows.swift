/// The rows of all tracked tables in plain dictionaries: slow, and simple enough to be obviously correct.
struct Rows: Equatable, Sendable {
    /// By table and key. Keys are folded by their collation, as their index compares them.
    private(set) var tables: [String: [[Cell]: [Cell]]] = [:]

    func rows(of table: String) -> [[Cell]: [Cell]] { tables[table] ?? [:] }

    func row(_ table: Table, _ key: [Cell]) -> [Cell]? {
        tables[table.name]?[zip(table.key, key).map { table.columns[$0].collation.folded($1) }]
    }

    mutating func put(_ table: Table, _ row: [Cell]) {
        tables[table.name, default: [:]][table.key(of: row)] = row
    }

    /// Applies one transaction's changes verbatim. Old values must match, and inserted keys must be free. Rows that are deleted or
    /// changed are removed first, so that two rows may swap their keys.
    mutating func apply(_ changes: [Change], _ schema: Schema) throws(Violation) {
        var arriving: [(Table, [Cell])] = []
        for change in changes {
            guard let table = schema.table(change.table) else { throw Violation("law 3", "there is no table \(change.table)") }
            switch change.kind {
            case .insert(let row):
                arriving.append((table, row))
            case .delete(let row):
                let key = table.key(of: row)
                guard let stored = tables[table.name]?[key] else { throw Violation("law 3", "\(change.text): there is no such row") }
                guard stored == row else { throw Violation("law 3", "\(change.text): the row is \(Self.text(stored))") }
                tables[table.name]?[key] = nil
            case .update(let key, let cells):
                let folded = zip(table.key, key).map { table.columns[$0].collation.folded($1) }
                guard var row = tables[table.name]?[folded] else { throw Violation("law 3", "\(change.text): there is no such row") }
                for cell in cells {
                    guard row[cell.column] == cell.old else { throw Violation("law 3", "\(change.text): the row is \(Self.text(row))") }
                    row[cell.column] = cell.new
                }
                tables[table.name]?[folded] = nil
                arriving.append((table, row))
            }
        }
        for (table, row) in arriving {
            let key = table.key(of: row)
            if let stored = tables[table.name]?[key] {
                throw Violation("law 3", "\(table.name) \(Self.text(row)) finds \(Self.text(stored)) under its key")
            }
            tables[table.name, default: [:]][key] = row
        }
    }

    /// The differences of `other`, row by row.
    func differences(to other: Rows) -> [Difference] {
        var found: [Difference] = []
        for table in Set(tables.keys).union(other.tables.keys).sorted() {
            let (mine, theirs) = (rows(of: table), other.rows(of: table))
            if mine == theirs { continue }
            for (key, row) in mine where theirs[key] != row { found.append(Difference(table: table, key: key, old: row, new: theirs[key])) }
            for (key, row) in theirs where mine[key] == nil { found.append(Difference(table: table, key: key, old: nil, new: row)) }
        }
        return found.sorted { $0.text < $1.text }
    }

    static func == (left: Rows, right: Rows) -> Bool {
        Set(left.tables.keys).union(right.tables.keys).allSatisfy { left.rows(of: $0) == right.rows(of: $0) }
    }

    static func text(_ row: [Cell]) -> String {
        "(\(row.map(\.literal).joined(separator: ", ")))"
    }
}

/// One row that differs in two states.
struct Difference: Sendable {
    var table: String
    /// Folded by its collation.
    var key: [Cell]
    var old: [Cell]?
    var new: [Cell]?

    var text: String {
        "\(table) \(old.map(Rows.text) ?? "nothing") → \(new.map(Rows.text) ?? "nothing")"
    }
}

/// The change of one row, as in the log.
struct Change: Sendable, Hashable {
    struct Update: Sendable, Hashable {
        var column: Int
        var old: Cell
        var new: Cell
    }

    enum Kind: Sendable, Hashable {
        case insert([Cell])
        case delete([Cell])
        case update(key: [Cell], [Update])
    }

    var table: String
    var kind: Kind
    /// For an insert that restores a deleted row: the columns that its author changed. The other columns have their old values.
    var revived: [Update]?
    /// For a delete: a constraint's rule removed the row, and no update restores it.
    var isSetAside = false
    /// How long before the transaction's time it was made. Two changes are equal whatever their ages.
    var age = Age()

    struct Age: Sendable, Hashable {
        var milliseconds: Int64 = 0

        static func == (left: Self, right: Self) -> Bool { true }
        func hash(into hasher: inout Hasher) {}
    }

    init(table: String, kind: Kind) {
        (self.table, self.kind) = (table, kind)
    }

    /// The change for one row's difference; nil if there is none.
    init?(_ difference: Difference) {
        switch (difference.old, difference.new) {
        case (let old?, let new?):
            let cells = old.indices.filter { old[$0] != new[$0] }.map { Update(column: $0, old: old[$0], new: new[$0]) }
            self.init(table: difference.table, kind: .update(key: difference.key, cells))
        case (let old?, nil): self.init(table: difference.table, kind: .delete(old))
        case (nil, let new?): self.init(table: difference.table, kind: .insert(new))
        case (nil, nil): return nil
        }
    }

    var text: String {
        switch kind {
        case .insert(let row): "\(revived == nil ? "insert into" : "revive in") \(table) \(Rows.text(row))"
        case .delete(let row): "delete from \(table) \(Rows.text(row))"
        case .update(let key, let cells):
            "update \(table) \(Rows.text(key)): "
                + cells.map { "column \($0.column) \($0.old.literal) → \($0.new.literal)" }.joined(separator: ", ")
        }
    }
}
