public import GRDB

/// What a save does where others changed the same rows since they were read, or hold a unique value that it brings.
///
/// The names and their meaning are Core Data's; `Documentation/editing.md` sets each outcome beside Core Data's.
///
///     try await context.save(mergePolicy: .mergeByPropertyObjectTrump)
public struct MergePolicy: Sendable {
    enum Rule: Sendable {
        case error, storeTrump, objectTrump, overwrite, rollback
        case custom(any MergePolicyResolver)
    }

    let rule: Rule

    /// Nothing is saved, and the conflicts are thrown. The default.
    public static let error = MergePolicy(rule: .error)
    /// Column by column; where both changed one, the store's value stays. A column whose conflict policy combines, such as `sum`,
    /// keeps both.
    public static let mergeByPropertyStoreTrump = MergePolicy(rule: .storeTrump)
    /// Column by column; where both changed one, the edited value is saved. A column whose conflict policy combines keeps both.
    public static let mergeByPropertyObjectTrump = MergePolicy(rule: .objectTrump)
    /// The edited row is saved with all its columns, those too that only others changed.
    public static let overwrite = MergePolicy(rule: .overwrite)
    /// Edits of a row that others changed are dropped; the context has the store's row from then on.
    public static let rollback = MergePolicy(rule: .rollback)

    /// What a resolver of the app's decides.
    public static func custom(_ resolver: some MergePolicyResolver) -> MergePolicy { MergePolicy(rule: .custom(resolver)) }
}

/// Decides the conflicts of a save by setting the `resolution` of each. One that stays `unresolved` is thrown, and nothing is
/// saved then.
///
///     struct KeepLonger: MergePolicyResolver {
///         func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) {
///             for index in list.indices {
///                 let (mine, theirs) = (list[index].mine?["text"] ?? .null, list[index].theirs?["text"] ?? .null)
///                 let isLonger = (String.fromDatabaseValue(mine) ?? "").count > (String.fromDatabaseValue(theirs) ?? "").count
///                 list[index].resolution = isLonger ? .keepObject : .keepStore
///             }
///         }
///     }
///
/// It is called within the transaction of the save, once for all rows that others changed, and once for each time that unique
/// values turn out to be taken.
public protocol MergePolicyResolver: Sendable {
    /// Rows that others changed or deleted since they were read.
    func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws
    /// Rows that bring a unique value which a stored row has.
    func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws
}

extension MergePolicyResolver {
    /// Leaves them unresolved.
    public func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws {}
}
