/// What a run may contain. A switch that is off names a situation that the product does not support yet; the fixed
/// seeds leave it out until it does.
public struct Features: Sendable, Hashable {
    // MARK: Schemas

    public var compoundKeys = true
    public var textKeys = true
    /// Keys that are references to another table's key.
    public var referenceKeys = true
    public var uniques = true
    /// Partial and expression indexes.
    public var coarseUniques = true
    public var foreignKeys = true
    public var setDefault = true
    public var selfReferences = true
    public var cycles = true
    public var checks = true
    public var generatedColumns = true
    /// Triggers of the user's own that write tracked tables.
    public var triggersOnTracked = true
    /// Triggers of the user's own that keep an untracked table.
    public var triggersOnUntracked = true

    // MARK: Writes

    public var strangers = true
    /// Strangers that write with foreign keys off and break them.
    public var strangersWithoutForeignKeys = true
    public var replace = true
    public var keyChanges = true
    public var swaps = true
    /// Deletes and inserts of the same key, in one transaction or in several.
    public var rebirths = true

    // MARK: Replicas

    /// Clones that come in the middle of a run.
    public var newcomers = true
    /// Replicas whose file is copied while they have unsent work; both files go on.
    public var copies = true

    // MARK: Sizes

    /// Worlds whose batches hold so little that most transactions travel in parts, and whose pages end between them.
    public var parts = true

    // MARK: Sealing

    /// Worlds whose relay cannot read what it orders.
    public var sealedSpaces = true

    // MARK: People

    /// Conflict policies, of the space and of single replicas.
    public var policies = true
    /// People who settle conflicts otherwise.
    public var resolutions = true

    // MARK: Faults

    public var networkFaults = true
    public var partitions = true
    public var crashes = true
    public var clockFaults = true
    /// Some replicas live in files, which are opened anew after a crash.
    public var files = true

    // MARK: Rare events

    /// Other programs that rebuild a table or drop its triggers, and write what nobody sees.
    public var unseenWrites = true
    /// A relay that is put back from an older backup.
    public var relayRestores = true
    /// A relay whose process dies at a commit.
    public var relayCrashes = true
    /// Replicas that make snapshots for the space, and a relay that drops the log before them.
    public var relayPurges = true
    /// Stores that drop old history.
    public var historyPurges = true
    /// Scenes of several steps that hardly ever come about by themselves.
    public var scenes = true

    // MARK: Not supported yet

    /// REPLACE into a table that refers to itself, directly or through others, with SET NULL or SET DEFAULT: SQLite (3.40 at
    /// least) then lets a reference to nobody in, with foreign keys on.
    public var replaceInSelfReferences = false
    /// Tracked parents with untracked children.
    public var untrackedChildren = false
    /// Rows whose key holds NULL, which stay local.
    public var nullKeys = false
    /// Replicas whose file is restored from a backup.
    public var restoredFiles = false

    // MARK: Not to be judged

    /// A relay that was put back to a backup, and then drops the log up to where those who have more of the other log stand:
    /// without the running digests of then it cannot tell them from replicas that were away.
    public var relayPurgesAfterRestores = false

    public init() {}
}
