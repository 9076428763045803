/// The situations that a run may contain. A switch is off if the product does not support its situation yet. Then the fixed seeds
/// do not contain it.
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
    /// References that the schema does not declare, and the space's decisions do.
    public var undeclaredReferences = true
    public var setDefault = true
    public var selfReferences = true
    public var cycles = true
    public var checks = true
    public var generatedColumns = true
    /// Rows whose key has NULL, which are not synced.
    public var nullKeys = true
    /// Collations and functions of a program.
    public var programFunctions = true
    /// Triggers of the user that write to tracked tables.
    public var triggersOnTracked = true
    /// Triggers of the user that write to an untracked table.
    public var triggersOnUntracked = true

    // MARK: Writes

    public var strangers = true
    /// External programs that write with foreign keys off and violate them.
    public var strangersWithoutForeignKeys = true
    public var replace = true
    public var keyChanges = true
    public var swaps = true
    /// Deletes and inserts of the same key, in one transaction or in several.
    public var rebirths = true

    /// Tables without history that refer to tracked ones.
    public var untrackedChildren = true

    /// Programs that add a constraint to a table, or remove one, while replicas have unsent work.
    public var migrations = true

    // MARK: Replicas

    /// Clones that are made during a run.
    public var newcomers = true
    /// Replicas whose file is copied while they have unsent transactions; both files continue.
    public var copies = true

    // MARK: Sizes

    /// Worlds with such small batches that most transactions travel in parts, and pages end between the parts.
    public var parts = true

    // MARK: Encryption

    /// Worlds with an encrypted space, in which the relay cannot read the entries.
    public var sealedSpaces = true

    // MARK: Policies and decisions

    /// Conflict policies of the space and of single replicas.
    public var policies = true
    /// Users who resolve conflicts.
    public var resolutions = true

    // MARK: Faults

    public var networkFaults = true
    public var partitions = true
    public var crashes = true
    public var clockFaults = true
    /// The names of faults (`Faults.all` and `RequestFaults.all`) that do not occur.
    public var faultsLeftOut: Set<String> = []
    /// Some replicas use files, which are opened again after a crash.
    public var files = true

    // MARK: Rare events

    /// Other programs that rebuild a table or drop its triggers, and write without capture.
    public var unseenWrites = true
    /// A relay that is restored from an older backup.
    public var relayRestores = true
    /// Replicas that make snapshots for the space, and a relay that purges the log before them.
    public var relayPurges = true
    /// Stores that purge old history.
    public var historyPurges = true
    /// Scenes of several steps that rarely occur at random.
    public var scenes = true

    // MARK: Not supported yet

    /// REPLACE into a table that refers to itself, directly or through others, with SET NULL or SET DEFAULT. Then SQLite 3.40, and
    /// possibly other versions, accepts a reference without a parent, although foreign keys are on.
    public var replaceInSelfReferences = false
    /// Replicas whose file is restored from a backup.
    public var restoredFiles = false

    // MARK: Cannot be checked

    /// A relay that was restored from a backup, and then purges the log beyond the position of replicas that have more of the lost
    /// log. Without the old running digests it cannot distinguish them from replicas that were offline.
    public var relayPurgesAfterRestores = false

    public init() {}
}
