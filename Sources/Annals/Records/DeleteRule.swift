public import GRDB

/// What happens to the rows that refer to a deleted row: Core Data's delete rules, expressed as foreign keys.
///
///     try db.create(table: "invoice") { t in
///         t.primaryKey("id", .blob)
///         t.belongsTo("customer", deleteRule: .deny)
///     }
///
/// SQLite enforces the rules for every program that writes, and every merge keeps them.
public enum DeleteRule: String, Hashable, Sendable, Codable, CaseIterable {
    /// Their reference becomes NULL: `ON DELETE SET NULL`.
    case nullify
    /// They are deleted too: `ON DELETE CASCADE`.
    case cascade
    /// The row cannot be deleted while other rows refer to it. The check runs at commit (`DEFERRABLE INITIALLY DEFERRED`), so one
    /// transaction can delete the row and the rows that refer to it, in any order.
    case deny
    /// Nothing: they keep a reference to a row that does not exist. No foreign key is declared, because SQLite would refuse the
    /// delete.
    case noAction

    /// The action that a foreign key declares; nil if it declares none.
    public var foreignKeyAction: Database.ForeignKeyAction? {
        switch self {
        case .nullify: .setNull
        case .cascade: .cascade
        case .deny, .noAction: nil
        }
    }
}

extension GRDB.TableDefinition {
    /// Adds a reference to a row of another table, with a delete rule. The column is `NAMEId`, as GRDB's `belongsTo` names it.
    /// With `noAction` the column has no type. A STRICT table does not accept that; declare the column there with `column`.
    ///
    /// - Parameters:
    ///   - name: the name of the reference, from which the column gets its name.
    ///   - table: the other table; by default the one with the name of the reference.
    ///   - deleteRule: what happens to the row when its parent is deleted.
    ///   - isRequired: whether every row must refer to a parent. With `nullify`, SQLite then refuses to delete a parent that has
    ///     rows.
    ///   - isIndexed: whether the column gets an index. Deletes in the other table search for references, and an index speeds
    ///     that up.
    public func belongsTo(
        _ name: String, inTable table: String? = nil, deleteRule: DeleteRule, isRequired: Bool = false, isIndexed: Bool = true
    ) {
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
    /// Declares a reference to a row of another table, with a delete rule.
    @discardableResult
    public func references(_ table: String, column: String? = nil, deleteRule: DeleteRule) -> Self {
        guard deleteRule != .noAction else { return self }
        return references(table, column: column, onDelete: deleteRule.foreignKeyAction, deferred: deleteRule == .deny)
    }
}
