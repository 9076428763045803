package import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import Foundation
import GRDB

/// What a replica needs to know to belong to a space.
package struct Membership: Sendable {
    /// What history, blame and the relay show.
    package var name: String
    package var relay: String
    package var space: SpaceName
    package var lineage: Lineage
    /// The file with the bearer token; the token itself is never stored.
    package var credentialFile: String?
    /// Whom to trust at the relay's address.
    package var trust: RelayTrust
    /// The file with the space's keys; the keys themselves are never stored.
    package var spaceKeyFile: String?
    /// The id of a key under which the space is sealed; nil where it is not.
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

/// How the rows of a store and of a space compare, per table.
package struct RowDifferences: Sendable {
    package struct Table: Sendable {
        package var name: String
        package var equal: Int
        /// Only in the store, only in the space, and under the same key with other values.
        package var onlyHere: Int
        package var onlyThere: Int
        package var differing: Int
    }

    package var tables: [Table]
    /// What the space has and the store lacks, in words.
    package var missingSchema: [String] = []
    /// Tables that only the store has.
    package var added: [String] = []
    /// The store has no row in any of them.
    package var hasNoneHere: Bool { tables.allSatisfy { $0.equal == 0 && $0.onlyHere == 0 && $0.differing == 0 } }
    package var areEqual: Bool { tables.allSatisfy { $0.onlyHere == 0 && $0.onlyThere == 0 && $0.differing == 0 } }
    package var haveEqualTables: Bool { missingSchema.isEmpty && added.isEmpty }
}

extension Store {
    /// Ends the membership: rows and history stay.
    ///
    /// - Parameter force: also where something would be lost by it.
    /// - Throws: `AnnalsError`; nothing is changed then. `notJoined`; without force `rowsDiffer` where work was not sent yet, which the
    ///   space would never get as what it is, or may have been written unseen, and `waitingForMigration` where the store lacks tables or columns of the space: what it keeps of
    ///   them would go.
    public func leave(force: Bool = false) async throws {
        try await managed("leave") { db, step in
            guard try StoreSchema.exists(db), try ReplicaState.load(db) != nil else {
                throw AnnalsError(.notJoined, operation: "leave", "the store is not joined to a space")
            }
            if !force { try Self.requireNothingToLose(db, step) }
            try ReplicaTables.drop(db)
        }
    }

    private static func requireNothingToLose(_ db: Database, _ step: StoreStep) throws {
        // The space has nothing yet, and all rows are this store's.
        guard try CreationStage.load(db) == nil else { return }
        try step.recordExternal()
        let unsent = try Outbox.count(db) + OutboxFiller.waiting(db)
        guard unsent == 0 else {
            throw AnnalsError(
                .rowsDiffer, operation: "leave",
                "the space does not have all work of this store; transactions that were not sent: \(unsent)",
                hint: "Run annals sync first; annals leave --force leaves all the same, and they stay in the rows and are not sent")
        }
        guard try !UnverifiedRows.isNoted(db) else {
            throw AnnalsError(
                .rowsDiffer, operation: "leave", "another program wrote rows unseen, and the space may not have them",
                hint: "Run annals sync first; annals leave --force leaves all the same")
        }
        let missingSchema = try MissingSchema.load(db)
        guard missingSchema.isEmpty else {
            let names = try missingSchema.names(in: SpaceSchema.load(db)).joined(separator: ", ")
            throw AnnalsError(
                .waitingForMigration, operation: "leave",
                "the store lacks \(names) of the space, and what it keeps of them would be gone",
                hint:
                    "Migrate first; annals leave --force leaves all the same, and annals join --schema additions gets it back from the space"
            )
        }
    }

    static var nothingTracked: AnnalsError {
        AnnalsError(.notTracked, operation: "join", "no table is tracked", hint: "Run annals track first")
    }

    static var alreadyJoined: AnnalsError {
        AnnalsError(.alreadyJoined, operation: "join", "the store is joined to a space already", hint: "Run annals leave first")
    }
}
