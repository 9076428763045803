public import AnnalsStore
public import GRDB

/// What a save does if others changed the same rows since they were read, or if a stored row already has a unique value of a
/// saved row.
///
/// The names and their meaning are those of Core Data. `Documentation/editing.md` compares each outcome with Core Data.
///
///     try await context.save(mergePolicy: .mergeByPropertyObjectTrump)
public struct MergePolicy: Sendable {
    enum Rule: Sendable {
        case error, storeTrump, objectTrump, overwrite, rollback
        case custom(any MergePolicyResolver)
    }

    let rule: Rule

    /// Throws the conflicts and saves nothing. The default.
    public static let error = MergePolicy(rule: .error)
    /// Merges column by column. If both sides changed a column, the stored value is kept. A column whose conflict policy combines
    /// values, such as `sum`, keeps both changes.
    public static let mergeByPropertyStoreTrump = MergePolicy(rule: .storeTrump)
    /// Merges column by column. If both sides changed a column, the edited value is saved. A column whose conflict policy
    /// combines values keeps both changes.
    public static let mergeByPropertyObjectTrump = MergePolicy(rule: .objectTrump)
    /// Saves the edited row with all its columns, and overwrites the columns that only others changed.
    public static let overwrite = MergePolicy(rule: .overwrite)
    /// Drops the edits of a row that others changed. The context then has the stored row.
    public static let rollback = MergePolicy(rule: .rollback)

    /// Asks a resolver of the app.
    public static func custom(_ resolver: some MergePolicyResolver) -> MergePolicy { MergePolicy(rule: .custom(resolver)) }
}

extension Store.Configuration {
    /// The policy of edit contexts that are made without one: for all contexts of the app, as with a merge policy of all contexts of a
    /// Core Data stack. It does not concern conflicts of a sync; see `Store.policies`.
    ///
    ///     configuration.mergePolicy = .mergeByPropertyObjectTrump
    ///     let store = try Store(path: path, configuration: configuration)
    public var mergePolicy: MergePolicy {
        get { editPolicy as? MergePolicy ?? .error }
        set { editPolicy = newValue }
    }
}

/// Decides the conflicts of a save by setting the `resolution` of each. If a conflict remains `unresolved`, the save throws it
/// and saves nothing.
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
/// The resolver is called within the transaction of the save: once for all rows that others changed, and once each time the save
/// finds that unique values are taken.
public protocol MergePolicyResolver: Sendable {
    /// Rows that others changed or deleted since they were read.
    func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) throws
    /// Rows with a unique value that a stored row already has.
    func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws
}

extension MergePolicyResolver {
    /// Leaves the conflicts unresolved.
    public func resolve(constraintConflicts list: inout [ConstraintConflict], in db: Database) throws {}
}
