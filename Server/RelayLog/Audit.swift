package import AnnalsCore
internal import Foundation

/// Who did something that an operator does.
package enum Operator: Sendable, Hashable {
    /// Somebody with the program beside the relay's storage.
    case commandLine
    /// Whoever showed the token of this number.
    case token(Int64)
    /// Whom an identity provider named.
    case subject(String)
    /// Somebody at a relay that is open to everybody.
    case anyone
    /// The relay itself, by a rule that its operator set.
    case automatic
}

/// What is done to a relay and leaves a line.
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
    /// A replica has other rows than a snapshot, or cannot use it.
    case snapshotCheck = "snapshot-refuted"
}

/// One line of the audit log: who did what, when, and what came of it. No secrets, and nothing of any row.
package struct AuditLine: Sendable, Hashable {
    /// Lines count from 1 in the order in which they were written; where a try was lost a number may be missing.
    package var number: Int64
    /// Milliseconds since 1970.
    package var time: Int64
    /// `cli`, `token 3 (laptop)` with the token's label, `subject ada` of an identity provider, `anyone`, or `automatic`.
    package var actor: String
    /// An `OperatorAction`, or one that a newer program knows.
    package var action: String
    /// nil for what concerns all spaces.
    package var space: SpaceName?
    /// What it was done to, such as a replica's id and name.
    package var subject: String
    /// `done`, or why nothing was.
    package var outcome: String
}

/// A line to be. Its id makes it one line, however often a transaction whose connection was lost is run.
struct AuditEntry: Sendable {
    let id: [UInt8]
    let by: Operator
    let action: OperatorAction
    var space: SpaceName?
    let time: Int64

    /// nil where nobody acts: what the relay does by itself leaves no line.
    init?(_ action: OperatorAction, by: Operator?, space: SpaceName?, at time: Int64) {
        guard let by else { return nil }
        id = withUnsafeBytes(of: UUID().uuid) { [UInt8]($0) }
        self.by = by
        self.action = action
        self.space = space
        self.time = time
    }

    static let done = "done"

    /// What was done to a replica was done to this; `name` is what it calls itself, nil where there is none.
    static func subject(_ replica: ReplicaID, named name: String?) -> String {
        guard let name, !name.isEmpty else { return "\(replica)" }
        return "\(replica) (\(name))"
    }
}

extension RelayDatabase {
    /// The audit log, newest line first; also while another process serves.
    ///
    /// - Parameters:
    ///   - space: only what was done to that one.
    ///   - before: only lines with smaller numbers.
    /// - Throws: `RelayLogError.storage`.
    package func audit(of space: SpaceName? = nil, before: Int64 = .max, limit: Int) async throws -> [AuditLine] {
        try await RelayLogError.wrapped {
            try await storage.read { db in try AuditStorage.lines(of: space, before: before, limit: limit, in: db) }
        }
    }
}

extension RelayLog {
    /// See `RelayDatabase.audit`.
    package func audit(of space: SpaceName? = nil, before: Int64 = .max, limit: Int) async throws -> [AuditLine] {
        try await database.audit(of: space, before: before, limit: limit)
    }
}
