package import AnnalsCore
internal import Foundation

/// Who performed an operator's action.
package enum Operator: Sendable, Hashable {
    /// A person with the command line tool and access to the storage of the relay, by the system's name of the user.
    case commandLine(user: String)
    /// The holder of the token with this number.
    case token(Int64)
    /// A subject of an identity provider.
    case subject(String)
    /// A caller of an open relay.
    case anyone
    /// The relay itself, by a rule that its operator set.
    case automatic
}

/// An action with a line in the audit log.
package enum OperatorAction: String, Sendable, Hashable, CaseIterable {
    case tokenCreate = "token-create"
    case tokenRevoke = "token-revoke"
    case replicaRetire = "replica-retire"
    case replicaRelease = "replica-release"
    case spacePurge = "space-purge"
    case entryVoid = "entry-void"
    case spaceDelete = "space-delete"
    case ownerQuarantine = "owner-quarantine"
    case ownerLift = "owner-lift"
    /// A receiver reported an entry that it cannot apply.
    case entryReport = "entry-report"
    /// A replica has different rows than a snapshot, or cannot use it.
    case snapshotCheck = "snapshot-refuted"
    /// A complete copy of the relay's data was made.
    case relayBackup = "relay-backup"
    /// The space was restored from a backup.
    case relayRestore = "relay-restore"
}

/// One line of the audit log: who did what, when, and the result. It holds no secrets and no data of rows.
package struct AuditLine: Sendable, Hashable {
    /// Numbers start at 1 and ascend in the order of writing. A number is missing where a write was rolled back.
    package var number: Int64
    /// Milliseconds since 1970.
    package var time: Int64
    /// `cli (ann)` with the system's user, `token 3 (laptop)` with the token's label, `subject ada` of an identity
    /// provider, `anyone`, or `automatic`.
    package var actor: String
    /// The raw value of an `OperatorAction`; a newer program may have written one that is not in the enum.
    package var action: String
    /// nil if the action concerns all spaces.
    package var space: SpaceName?
    /// The object of the action, such as a replica's id and name.
    package var subject: String
    /// `done`, or why nothing was done.
    package var outcome: String
}

/// A line before it is written. Its id keeps it unique if a transaction runs again after a lost connection.
struct AuditEntry: Sendable {
    let id: [UInt8]
    let by: Operator
    let action: OperatorAction
    var space: SpaceName?
    let time: Int64

    /// nil without an operator: actions that the relay performs by itself get no line.
    init?(_ action: OperatorAction, by: Operator?, space: SpaceName?, at time: Int64) {
        guard let by else { return nil }
        id = withUnsafeBytes(of: UUID().uuid) { [UInt8]($0) }
        self.by = by
        self.action = action
        self.space = space
        self.time = time
    }

    static let done = "done"
    /// Characters of a folder's path in a line.
    static let placeCharacters = 500

    /// The subject for a replica; `name` is the name that the replica gave itself, or nil.
    static func subject(_ replica: ReplicaID, named name: String?) -> String {
        guard let name, !name.isEmpty else { return "\(replica)" }
        return "\(replica) (\(name))"
    }
}

extension RelayDatabase {
    /// The audit log, newest line first. It can be read while another process serves.
    ///
    ///   - space: only actions on this space.
    ///   - before: only lines with lower numbers.
    /// - Throws: `RelayLogError.storage`.
    package func audit(of space: SpaceName? = nil, before: Int64 = .max, limit: Int) async throws -> [AuditLine] {
        try await RelayLogError.wrapped {
            try await storage.read { db in try AuditStorage.lines(of: space, before: before, limit: limit, in: db) }
        }
    }
}

extension RelayDatabase {
    /// Adds a line about a complete backup. Metrics and the operator's page show the age of the newest one.
    ///
    /// - Parameters:
    ///   - place: where the backup is.
    ///   - time: the moment of its data, in milliseconds since 1970.
    /// - Throws: `RelayLogError`.
    package func noteBackup(to place: String, at time: Int64, by: Operator) async throws {
        let entry = AuditEntry(.relayBackup, by: by, space: nil, at: time)
        let subject = String(place.prefix(AuditEntry.placeCharacters))
        try await RelayLogError.wrapped {
            try await storage.write { db in try AuditStorage.add(entry, subject: subject, outcome: AuditEntry.done, in: db) }
        }
    }
}

extension RelayLog {
    /// The moment of the newest backup that `annals relay backup` made, in milliseconds since 1970; nil without one.
    package func lastBackup() async throws -> Int64? {
        try await reading { db in try AuditStorage.newest(.relayBackup, in: db) }
    }

    /// See `RelayDatabase.audit`.
    package func audit(of space: SpaceName? = nil, before: Int64 = .max, limit: Int) async throws -> [AuditLine] {
        try await database.audit(of: space, before: before, limit: limit)
    }
}
