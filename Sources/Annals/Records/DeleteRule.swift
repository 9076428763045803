public import GRDB

/// What becomes of the rows that refer to one that is deleted; Core Data's rules as foreign keys say them.
///
///     try db.create(table: "invoice") { t in
///         t.primaryKey("id", .blob)
///         t.belongsTo("customer", deleteRule: .deny)
///     }
///
/// SQLite holds to them whoever writes, and so does every merge.
public enum DeleteRule: String, Hashable, Sendable, Codable, CaseIterable {
    /// They refer to nothing: `ON DELETE SET NULL`.
    case nullify
    /// They are deleted too: `ON DELETE CASCADE`.
    case cascade
    /// The row cannot be deleted while there are any. It is checked at commit (`DEFERRABLE INITIALLY DEFERRED`), so that a row
    /// and what refers to it can be deleted in one transaction, in any order.
    case deny
    /// Nothing: they keep a reference that leads nowhere. No foreign key is declared, since SQLite would not let that stand.
    case noAction

    /// The action that a foreign key declares; nil where it is none.
    public var foreignKeyAction: Database.ForeignKeyAction? {
        switch self {
        case .nullify: .setNull
        case .cascade: .cascade
        case .deny, .noAction: nil
        }
    }
}

extension GRDB.TableDefinition {
    /// A reference to a row of another table: the column `NAMEId`, as GRDB's `belongsTo` makes it, with a rule for the time when
    /// that row is deleted. With `noAction` the column has no type, which a STRICT table does not take: declare it there by `column`.
    ///
    /// - Parameters:
    ///   - name: of the reference; the column is called after it.
    ///   - table: the other table; by default the one that is called like the reference.
    ///   - deleteRule: what becomes of the row when its parent is deleted.
    ///   - isRequired: every row must refer to one. It cannot go with `nullify`.
    ///   - isIndexed: deletes of the other table look for references, so an index is of use.
    public func belongsTo(
        _ name: String, inTable table: String? = nil, deleteRule: DeleteRule, isRequired: Bool = false, isIndexed: Bool = true
    ) {
        precondition(!(isRequired && deleteRule == .nullify), "what must refer to a row cannot refer to none")
        if deleteRule == .noAction {
            let column = column("\(name)Id")
            if isRequired { column.notNull() }
            if isIndexed { column.indexed() }
            return
        }
        let reference = belongsTo(
            name, inTable: table, onDelete: deleteRule.foreignKeyAction, deferred: deleteRule == .deny, indexed: isIndexed)
        if isRequired { reference.notNull() }
    }
}

extension ColumnDefinition {
    /// A reference to a row of another table, with a rule for the time when that row is deleted.
    @discardableResult
    public func references(_ table: String, column: String? = nil, deleteRule: DeleteRule) -> Self {
        guard deleteRule != .noAction else { return self }
        return references(table, column: column, onDelete: deleteRule.foreignKeyAction, deferred: deleteRule == .deny)
    }
}
