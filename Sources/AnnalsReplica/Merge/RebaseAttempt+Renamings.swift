import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsSchema

extension RebaseAttempt {
    /// Rows that this transaction inserted and that got another key.
    func renamings() -> [RenumberedRows.Renaming] {
        verdicts.indices.compactMap { index in
            guard case .insert(let asked) = transaction.changes[index].change, var number = verdicts[index].row else { return nil }
            while let target = rows[number].substitute { number = target }
            guard let after = rows[number].after else { return nil }
            let table = rows[number].table
            let (old, new) = (table.key(of: asked), table.key(of: after))
            guard old != new else { return nil }
            return RenumberedRows.Renaming(
                old: PersistentIdentifier(table: table.name, key: old), new: PersistentIdentifier(table: table.name, key: new))
        }
    }
}
