package import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import Foundation
import GRDB

/// A replica's membership in a space.
package struct Membership: Sendable {
    /// The replica's name in history, in blame and at the relay.
    package var name: String
    package var relay: String
    package var space: SpaceName
    package var lineage: Lineage
    /// The file with the bearer token. The token itself is never stored.
    package var credentialFile: String?
    /// How the relay's certificate is verified.
    package var trust: RelayTrust
    /// The file with the space's keys. The keys themselves are never stored.
    package var spaceKeyFile: String?
    /// The id of the key that encrypts the space; nil if the space is not encrypted.
    package var sealedUnder: UInt64?

    package init(
        name: String, relay: String, space: SpaceName, lineage: Lineage, credentialFile: String? = nil, trust: RelayTrust = RelayTrust(),
        spaceKeyFile: String? = nil, sealedUnder: UInt64? = nil
    ) {
        self.name = name
        self.relay = relay
        self.space = space
        self.lineage = lineage
        self.credentialFile = credentialFile
        self.trust = trust
        self.spaceKeyFile = spaceKeyFile
        self.sealedUnder = sealedUnder
    }

    func state(at position: Position, _ logDigest: Digest?, as key: ReplicaKey) -> ReplicaState {
        ReplicaState(
            replica: key.replica, secret: key.bytes, name: name, relay: relay, space: space, lineage: lineage, position: position,
            logDigest: logDigest, head: position, lastCounter: .zero, lastDigest: .zero, credentialFile: credentialFile,
            trust: trust, spaceKeyFile: spaceKeyFile, sealedUnder: sealedUnder)
    }
}

/// A comparison of the rows of a store and of a space, by table.
package struct RowDifferences: Sendable {
    package struct Table: Sendable {
        package var name: String
        package var equal: Int
        /// Rows only in the store, only in the space, and with the same key and other values.
        package var onlyHere: Int
        package var onlyThere: Int
        package var differing: Int
    }

    package var tables: [Table]
    /// Tables and columns that the space has and the store lacks.
    package var missingSchema: [String] = []
    /// Tables that only the store has.
    package var added: [String] = []
    /// Whether the store has no row in any of the tables.
    package var hasNoneHere: Bool { tables.allSatisfy { $0.equal == 0 && $0.onlyHere == 0 && $0.differing == 0 } }
    package var areEqual: Bool { tables.allSatisfy { $0.onlyHere == 0 && $0.onlyThere == 0 && $0.differing == 0 } }
    package var haveEqualTables: Bool { missingSchema.isEmpty && added.isEmpty }
}

extension Store {
    /// Ends the membership. Rows and history stay.
    ///
    /// Unsent rows are noted, so that a later join with existing rows merges them as work of this store; see `ExistingRows`.
    ///
    /// - Parameter force: leaves although others do not have everything.
    /// - Throws: `AnnalsError`; nothing is changed then. `notJoined`. Without `force`: `rowsDiffer` if the store has transactions
    ///   that were not sent, which the space would never get as such, or rows that may have been written without capture;
    ///   `waitingForMigration` if the store lacks tables or columns of the space, because their deferred values would be lost.
    public func leave(force: Bool = false) async throws {
        try await managed("leave") { db, step in
            guard try StoreSchema.exists(db), try ReplicaState.load(db) != nil else {
                throw AnnalsError(.notJoined, operation: "leave", "the store has not joined a space")
            }
            if !force { try Self.requireNothingToLose(db, step) }
            // If the space has nothing yet, the rows are known to nobody.
            if try CreationStage.load(db) == nil {
                try step.recordExternal()
                try UnsentRows.begin(db, step.tables())
            }
            try ReplicaTables.drop(db)
        }
    }

    private static func requireNothingToLose(_ db: Database, _ step: StoreStep) throws {
        // The space has nothing yet, and all rows belong to this store.
        guard try CreationStage.load(db) == nil else { return }
        try step.recordExternal()
        let unsent = try Outbox.count(db) + OutboxFiller.waiting(db)
        guard unsent == 0 else {
            throw AnnalsError(
                .rowsDiffer, operation: "leave",
                "the space does not have all changes of this store; transactions that were not sent: \(unsent)",
                hint: "Call sync() first. leave(force: true) does not send them; joining with existing: .sameKey sends them later",
                commandHint:
                    "Run annals sync first. annals leave --force does not send them; annals join --existing same-key sends them later")
        }
        guard try !UnverifiedRows.isNoted(db) else {
            throw AnnalsError(
                .rowsDiffer, operation: "leave", "another program wrote rows that were not captured, and the space may not have them",
                hint: "Call sync() first; leave(force: true) leaves anyway",
                commandHint: "Run annals sync first; annals leave --force leaves anyway")
        }
        let missingSchema = try MissingSchema.load(db)
        guard missingSchema.isEmpty else {
            let names = try missingSchema.names(in: SpaceSchema.load(db)).joined(separator: ", ")
            throw AnnalsError(
                .waitingForMigration, operation: "leave",
                "the store does not have \(names) of the space, and the values that it stores for them would be lost",
                hint:
                    "Migrate first; leave(force: true) leaves anyway, and joining with schema: .additions gets the values back from "
                    + "the space",
                commandHint:
                    "Migrate first; annals leave --force leaves anyway, and annals join --schema additions gets the values back from "
                    + "the space"
            )
        }
    }

    package static var nothingTracked: AnnalsError {
        AnnalsError(
            .notTracked, operation: "join", "no table is tracked", hint: "Call track(_:) first", commandHint: "Run annals track first")
    }

    package static var alreadyJoined: AnnalsError { mustLeave("join", "the store has already joined a space") }

    /// The error for what a replica may do only after it has left its space.
    static func mustLeave(_ operation: String, _ message: String) -> AnnalsError {
        AnnalsError(
            .alreadyJoined, operation: operation, message, hint: "Call leave() first", commandHint: "Run annals leave first")
    }
}
