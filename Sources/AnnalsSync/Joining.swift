package import AnnalsCore
package import AnnalsReplica
import AnnalsSQLite
package import AnnalsStore
import AnnalsWire
import Foundation
import Synchronization

/// Creates replicas: lets a store join a space, or clones a space into a new file.
///
///     let joining = Joining(transport: relay, address: "http://127.0.0.1:8640", space: space, name: "laptop")
///     _ = try await joining.clone(to: "laptop.db")
package struct Joining: Sendable {
    /// The result of a join.
    package enum Outcome: Sendable {
        /// The space is new and has the rows of the store.
        case created(Position)
        /// The space existed, and its rows equal those of the store.
        case recognised(Position)
        /// The space existed with other rows, and both were merged.
        case merged(Position, ExistingSummary)
    }

    /// The result of a clone.
    package struct Clone: Sendable {
        package var position: Position
        /// The untracked tables of the space. They are empty in the clone.
        package var emptyTables: [String]
        /// Newer snapshots that could not be used. An older one and the log after it were used instead.
        package var unusableSnapshots: [Position] = []
    }

    let transport: any RelayTransport
    private let address: String
    let space: SpaceName
    private let name: String
    private let credentialFile: String?
    private let trust: RelayTrust
    let spaceKeys: SpaceKeyRing?
    private let spaceKeyFile: String?
    private let configuration: Store.Configuration
    let environment: SyncAgent.Environment
    /// Gets the progress: a stage, and the number of bytes done in it.
    let progress: @Sendable (Stage, Int64) -> Void

    /// What a join would find.
    package enum Prospect: Sendable {
        /// The space does not exist. A join would create it from the store's rows.
        case new
        /// The space exists. The value compares its rows with those of the store.
        case existing(RowDifferences)
    }

    package typealias Stage = SyncEvent.Transfer.Stage

    /// - Parameters:
    ///   - transport: the transport to the relay.
    ///   - address: the relay's base address.
    ///   - space: the space.
    ///   - name: the name that the relay shows to its operator.
    ///   - credentialFile: the file with the token. The store remembers its path.
    ///   - trust: the certificates and keys to trust at an https address.
    ///   - spaceKeys: the space's keys, if it is sealed or must be sealed. If nil, those of `configuration` are used.
    ///   - spaceKeyFile: the file of the keys. The joining or new store reads it again later. A store that was opened
    ///     with keys does not need it.
    ///   - configuration: how the store is opened.
    ///   - environment: pauses and randomness. A test passes its own.
    ///   - progress: gets the progress.
    package init(
        transport: any RelayTransport, address: String, space: SpaceName, name: String, credentialFile: String? = nil,
        trust: RelayTrust = RelayTrust(), spaceKeys: SpaceKeyRing? = nil, spaceKeyFile: String? = nil,
        configuration: Store.Configuration = .init(), environment: SyncAgent.Environment = .system,
        progress: @escaping @Sendable (Stage, Int64) -> Void = { _, _ in }
    ) {
        self.transport = transport
        self.address = address
        self.space = space
        self.name = name
        self.credentialFile = credentialFile
        self.trust = trust
        self.spaceKeys = spaceKeys ?? configuration.spaceKeys
        self.spaceKeyFile = spaceKeyFile
        self.configuration = configuration
        self.environment = environment
        self.progress = progress
    }

    // MARK: Join

    /// Makes the store a replica. If the space is new, it is created from the store's rows. If it exists with equal
    /// rows, the store adopts it.
    ///
    /// Call it again to continue an interrupted join. A space that was begun but has no entry counts as new.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - existing: how to merge rows that differ from those of the space. If nil, different rows are refused. A store
    ///     without rows does not need it.
    ///   - schema: which differences from the space's schema are allowed.
    ///   - references: what happens to undecided suggestions of references if the space is new; nil refuses them.
    /// - Throws: `AnnalsError`: `rowsDiffer` if the space exists with other rows, `schemaRefused` if its tables have
    ///   another declaration, `constraint` if rows violate a foreign key. Then nothing was changed.
    package func join(
        _ store: Store, existing: ExistingRows? = nil, schema: JoinedSchema = .equal, references: SuggestedReferences? = nil
    ) async throws -> Outcome {
        if try await store.replicaState() != nil, try await store.creationStage() == nil {
            throw Store.alreadyJoined
        }
        try await checkKeys(of: store)
        // This check comes before any request, so that no space without rows is left at the relay.
        if try await store.status().tracked.isEmpty { throw Store.nothingTracked }
        try await store.checkUsableTables()
        if existing != .theirs { try await store.checkReferences() }
        do {
            for _ in 0..<SyncLimits.joinAttempts {
                if let outcome = try await attempt(store, existing, schema, references) { return outcome }
            }
        } catch let error as TransportError {
            throw error.thrown
        }
        throw AnnalsError(
            .busy, operation: "join", "other stores are creating the space \(space) at the moment", hint: "Join again",
            commandHint: "Run annals join again", isRetryable: true)
    }

    /// A store with keys must not create a space that the relay can read. A store that will not have the key must not
    /// create a sealed space.
    private func checkKeys(of store: Store) async throws {
        let own = store.configuration.spaceKeys
        if spaceKeys == nil, own != nil {
            throw AnnalsError(
                .configuration, operation: "join", "the store was opened with a space key, but the join has none",
                hint: "Pass the key to the join, too, or open the store without it. Nothing was changed")
        }
        if spaceKeys != nil, own == nil, spaceKeyFile == nil {
            throw AnnalsError(
                .configuration, operation: "join", "the space will be encrypted, but the store does not have its key",
                hint: "Open the store with the key, or pass the key file. Nothing was changed")
        }
        // An interrupted join must continue with the same kind of key.
        guard let begun = try await store.replicaState(), begun.space == space else { return }
        switch (begun.sealedUnder, spaceKeys) {
        case (let id?, nil): throw AnnalsError.keyNeeded(for: space, id, operation: "join")
        case (let id?, let ring?) where ring.key(id) == nil: throw AnnalsError.otherKey(for: space, id, spaceKeyFile, operation: "join")
        case (nil, _?): throw AnnalsError.notSealed(space, operation: "join")
        default: break
        }
    }

    /// nil if another store created the space meanwhile. The caller tries again.
    private func attempt(
        _ store: Store, _ existing: ExistingRows?, _ schema: JoinedSchema, _ references: SuggestedReferences?
    ) async throws -> Outcome? {
        // The stage is read first. So a space that is begun meanwhile is not mistaken for one that the relay does not
        // have.
        let stage = try await store.creationStage()
        let description = try await describe()
        if let stage {
            if let description, description.lineage == stage.lineage {
                if let snapshot = description.snapshot {
                    if case .copied(_, let digest) = stage, snapshot.digest == digest.description {
                        try await store.finishJoin(digest)
                        return .created(try await position(of: store))
                    }
                } else {
                    if case .copied(_, let digest) = stage, let outcome = try await bringKept(store, stage.lineage, digest) {
                        return outcome
                    }
                    return try await create(store, description)
                }
            }
            // The relay has another space than the one that this store began. So the store drops what it began.
            try await store.abandonSpace(stage.lineage)
        }
        guard let description, !description.isEmpty else {
            try await store.decideReferences(references)
            return try await create(store, description)
        }
        if let first = try await abandonedFirstEntry(description, store) {
            try await store.decideReferences(references)
            return try await create(store, description, after: first)
        }
        return try await recognise(store, description, existing, schema)
    }

    /// nil if there is no such space.
    private func describe() async throws -> SpaceDescription? {
        do {
            return try await transport.describe()
        } catch {
            guard error.code == .spaceNotFound else { throw error }
            return nil
        }
    }

    private func position(of store: Store) async throws -> Position {
        try await store.replicaState()?.position ?? .zero
    }

    /// Returns what a join would find. Changes nothing here or at the relay.
    ///
    /// - Throws: `AnnalsError` where `join` would throw independently of `existing`.
    package func prospect(of store: Store, schema: JoinedSchema = .equal, references: SuggestedReferences? = nil) async throws -> Prospect {
        do {
            try await store.checkUsableTables()
            guard let description = try await describe(), !description.isEmpty else {
                try await store.checkReferences()
                if references == nil { try await store.requireDecidedReferences() }
                return .new
            }
            return try await withTemporaryFolder(beside: store.path, for: Self.purpose(ofDownload: description)) { folder in
                let (copy, _) = try await replica(in: folder, description)
                let differences = try await store.differences(from: copy.path, schema: schema)
                try copy.close()
                return .existing(differences)
            }
        } catch let error as TransportError {
            throw error.thrown
        }
    }

    /// Uploads the first entry and the first snapshot. Returns nil if those of another store are at the relay already.
    ///
    /// Everything that can fail locally is tried before the space is created.
    private func create(_ store: Store, _ known: SpaceDescription?, after first: Store.FirstEntry? = nil) async throws -> Outcome? {
        try await withTemporaryFolder(beside: store.path) { folder in
            let packed = folder.packed
            let progress = progress
            progress(.copying, 0)
            let rows = try await store.copyRows(to: folder.file("snapshot.db"))
            var lineage = known?.lineage
            do {
                if lineage == nil { lineage = try await transport.create().lineage }
            } catch let error as TransportError where error.code == .spaceExists {
                return nil
            }
            guard let lineage else { return nil }
            let beginning = try await store.startSpace(membership(lineage, sealedUnder: spaceKeys?.sealing.id), from: rows, after: first)
            let agent = SyncAgent(store: store, transport: transport, environment: environment)
            guard try await agent.pushFirstEntry() else {
                try await store.abandonSpace(lineage)
                return nil
            }
            progress(.compressing, 0)
            let file = try SnapshotPacking.pack(rows.path, packed, sealer: await sealer(of: store)) { progress(.compressing, $0) }
            try await store.noteSnapshot(file.digest, of: beginning)
            try? FileManager.default.removeItem(atPath: rows.path)
            folder.note(Self.purpose(ofJoin: lineage, file.digest))
            return try await bring(packed, file.digest, of: store, lineage)
        }
    }

    /// The sealer for the first rows of the space. nil if the space is not sealed.
    private func sealer(of store: Store) async throws -> SnapshotSealer? {
        guard let spaceKeys, let state = try await store.replicaState() else { return nil }
        let logDigest = state.position == Position.first ? state.logDigest : nil
        let first = LogMark(lineage: state.lineage, position: Position.first, digest: logDigest)
        return try spaceKeys.cipher(for: space).sealer(of: first)
    }

    /// Uploads a packed snapshot that an earlier process made for the same join. So the parts that the relay has are
    /// not sent again. Returns nil if there is none, or if another store's snapshot came first.
    private func bringKept(_ store: Store, _ lineage: Lineage, _ digest: Digest) async throws -> Outcome? {
        let purpose = Self.purpose(ofJoin: lineage, digest)
        guard WorkFolder.isKept(in: Self.folder(of: store.path), for: purpose) else { return nil }
        return try await withTemporaryFolder(beside: store.path, for: purpose) { folder -> Outcome? in
            guard folder.holds(digest) else { return nil }
            return try await bring(folder.packed, digest, of: store, lineage)
        }
    }

    private func bring(_ packed: String, _ digest: Digest, of store: Store, _ lineage: Lineage) async throws -> Outcome? {
        let progress = progress
        do {
            let seen = LogMark(lineage: lineage, position: Position.first)
            try await transport.uploadSnapshot(at: packed, seen: seen, digest: digest) { progress(.uploading, $0) }
        } catch {
            guard error.code == .snapshotSuperseded else { throw error }
            try await store.abandonSpace(lineage)
            return nil
        }
        try await store.finishJoin(digest)
        return .created(try await position(of: store))
    }

    private func recognise(
        _ store: Store, _ description: SpaceDescription, _ existing: ExistingRows?, _ schema: JoinedSchema
    ) async throws -> Outcome {
        try await withTemporaryFolder(beside: store.path, for: Self.purpose(ofDownload: description)) { folder in
            let (copy, _) = try await replica(in: folder, description)
            if try await store.adopt(copy, digest: { try StoreDigest.rows($0) }) {
                return .recognised(try await position(of: store))
            }
            func merge(_ existing: ExistingRows?) async throws -> Outcome {
                let summary = try await store.adopt(copy, existing: existing, schema: schema)
                return .merged(try await position(of: store), summary)
            }
            if let existing { return try await merge(existing) }
            let differences = try await store.differences(from: copy.path, schema: schema)
            if differences.hasNoneHere || (differences.areEqual && !differences.haveEqualTables) { return try await merge(nil) }
            throw AnnalsError(
                .rowsDiffer, operation: "join",
                "the rows of the space \(space) differ from those of this store: \(Self.describe(differences))",
                hint: "Nothing was changed. Choose how to merge the rows: existing: .sameKey, .separate or .theirs",
                commandHint: "Nothing was changed. Choose how to merge the rows: --existing same-key, separate or theirs")
        }
    }

    package static func describe(_ differences: RowDifferences) -> String {
        differences.tables.filter { $0.onlyHere + $0.onlyThere + $0.differing > 0 }
            .map { "\($0.name) \($0.onlyHere) only here, \($0.onlyThere) only there, \($0.differing) differ" }
            .joined(separator: "; ")
    }

    // MARK: Clone

    /// Creates a new store at `path` from the space: it imports the newest snapshot, and then applies the log after it.
    ///
    /// Untracked tables are empty. The file is in WAL mode, like every file that a store creates, and appears at `path`
    /// only when it is complete. If the relay or a crash interrupts the transfer, its files are kept beside `path` for
    /// a day, so that the next attempt resumes. A cancelled clone leaves no files.
    ///
    /// - Throws: `AnnalsError` with code `cannotCreate` if the file exists.
    package func clone(to path: String) async throws -> Clone {
        guard !OutputFile.exists(path) else {
            throw AnnalsError(.cannotCreate, operation: "clone", "\(path) already exists", hint: "Choose another name")
        }
        do {
            let description = try await transport.describe()
            return try await withTemporaryFolder(beside: path, for: Self.purpose(ofDownload: description)) { folder in
                let (copy, unusable) = try await replica(in: folder, description, isKept: true)
                let clone = Clone(
                    position: try await position(of: copy), emptyTables: try await copy.emptyTables(), unusableSnapshots: unusable)
                try await copy.useWriteAheadLog()
                try copy.close()
                try OutputFile(path, writtenAt: copy.path, operation: "clone").finish()
                return clone
            }
        } catch let error as TransportError {
            throw error.thrown
        }
    }

    /// A replica in a temporary folder, up to the head of the log.
    ///
    /// A member of the space made the snapshot, and may have made a bad one. If a snapshot cannot be used, or if the
    /// log contradicts its rows, the next older snapshot is used. The log after that leads to the same rows.
    ///
    /// - Returns: the store, and the positions of the snapshots that could not be used.
    private func replica(
        in folder: WorkFolder, _ description: SpaceDescription, isKept: Bool = false
    ) async throws -> (store: Store, unusable: [Position]) {
        var unusable: [Position] = []
        var first: (any Error)?
        while true {
            let tried = Mutex<Position?>(nil)
            do {
                let choice = unusable.last.map { SnapshotChoice.atOrBefore($0.advanced(by: -1)) } ?? .newest
                let store = try await snapshotReplica(in: folder, description, choice, isKept: isKept) { position in
                    tried.withLock { $0 = position }
                }
                progress(.pulling, 0)
                do {
                    try await SyncAgent(store: store, transport: BoundedLog(of: transport), environment: environment).sync(.pullOnly)
                } catch {
                    try store.close()
                    // Only the author of an older snapshot says which log it belongs to.
                    let isOlder = tried.withLock { $0 } != description.snapshot?.position
                    if isOlder, (error as? AnnalsError)?.code == .relayRolledBack { throw SnapshotFile.otherLog }
                    throw error
                }
                return (store, unusable)
            } catch let error as AnnalsError where Self.mayHaveOlder(error) && unusable.count < SyncLimits.snapshotsPassedOver {
                first = first ?? error
                guard let position = tried.withLock({ $0 }), position > Position.first else { throw first ?? error }
                unusable.append(position)
                folder.clear()
            } catch {
                // There is no older snapshot, so the error of the newest one is reported.
                throw first ?? error
            }
        }
    }

    /// Whether another snapshot may work although this one does not.
    static func isOfSnapshot(_ error: AnnalsError) -> Bool {
        // The snapshot's records about authors may be false, too. Then the log seems to lack entries.
        [.corruptBatch, .diverged, .schemaRefused, .notADatabase, .relayInconsistent].contains(error.code)
    }

    /// Whether a clone tries an older snapshot. A file can claim a newer format, and a forged file can cause an
    /// unexpected error.
    private static func mayHaveOlder(_ error: AnnalsError) -> Bool {
        isOfSnapshot(error) || [.newerFormat, .defect].contains(error.code)
    }

    /// The snapshot with which a replica begins.
    enum SnapshotChoice: Sendable {
        case newest
        /// The newest one that is not after this position.
        case atOrBefore(Position)
        /// The one at this position, even if no replica has confirmed it.
        case exactly(Position)
    }

    /// A replica in a temporary folder, at the position of a snapshot.
    ///
    /// - Parameters:
    ///   - isKept: whether the file must be durable at the end. Writing to disk then starts while the rows are checked.
    ///   - received: gets the snapshot's position after it was received.
    func snapshotReplica(
        in folder: WorkFolder, _ description: SpaceDescription, _ choice: SnapshotChoice = .newest, isKept: Bool = false,
        received: @escaping @Sendable (Position) -> Void = { _ in }
    ) async throws -> Store {
        let (packed, plain) = (folder.packed, folder.file("store.db"))
        let (progress, transport) = (progress, transport)
        let claimed = Mutex<Position?>(nil)
        let seal: SnapshotSeal?
        do {
            seal = try await SnapshotReceiving(packed, to: plain, cipher: spaceKeys?.cipher(for: space), of: space).run { note in
                let told: @Sendable (Int64) -> Void = { length in
                    note(length)
                    progress(.downloading, length)
                }
                let position: Position
                switch choice {
                case .newest: position = try await transport.downloadSnapshot(to: packed, progress: told)
                case .atOrBefore(let latest):
                    position = try await transport.downloadSnapshot(atOrBefore: latest, to: packed, progress: told)
                case .exactly(let asked):
                    try await transport.downloadSnapshot(at: asked, to: packed, progress: told)
                    position = asked
                }
                claimed.withLock { $0 = position }
                received(position)
                progress(.unpacking, 0)
            }
        } catch let error as TransportError {
            guard error.code == .noSnapshot else { throw error.thrown }
            throw unfinished(description)
        }
        let snapshot = description.snapshot
        var scratch = configuration
        scratch.isScratch = true
        scratch.newSchemas = .take
        if let spaceKeys { scratch.spaceKeys = spaceKeys }
        if let seal { try check(seal, snapshot, description.lineage) }
        async let storing: Void = isKept ? OutputFile.beginStoring(plain) : ()
        let store = try await Store.fromSnapshot(
            at: plain, membership: membership(description.lineage, sealedUnder: seal?.keyID), configuration: scratch,
            relayTime: description.time
        ) {
            // The record that a replica sealed takes precedence over the relay's.
            if let seal { return seal.position == $0 ? seal.logDigest : nil }
            // The relay may have a newer snapshot than at the time of its description.
            return $0 == snapshot?.position ? snapshot?.logDigest.flatMap { Digest($0) } : nil
        }
        await storing
        // A purge, and the pulls after the snapshot, depend on the position that the relay has for it.
        guard let claimed = claimed.withLock({ $0 }), try await store.replicaState()?.position == claimed else {
            try store.close()
            throw AnnalsError(
                .corruptBatch, operation: "clone", "the relay's snapshot has another position than the relay stated")
        }
        return store
    }

    private func unfinished(_ description: SpaceDescription) -> AnnalsError {
        guard description.head <= Position.first else {
            return AnnalsError(
                .spaceUnfinished, operation: "clone", "the relay has lost the snapshot of the space \(space)",
                hint: "A replica with the whole log will upload a new one at its next sync. Try again after that", isRetryable: true)
        }
        return AnnalsError(
            .spaceUnfinished, operation: "clone", "the space \(space) has no rows yet: the join that creates it is not complete",
            hint: description.isEmpty
                ? "Join a store that has the rows"
                : "Try again in a moment. If that join was interrupted, run it again, or join another store with the same schema",
            isRetryable: true)
    }

    /// The author of a sealed snapshot states which log it belongs to. The relay's statement must agree.
    private func check(_ seal: SnapshotSeal, _ snapshot: SpaceDescription.Snapshot?, _ lineage: Lineage) throws {
        guard seal.lineage == lineage else { throw AnnalsError.relayRolledBack(operation: "clone") }
        guard let snapshot, snapshot.position == seal.position, let told = snapshot.logDigest, let known = seal.logDigest else { return }
        guard told == known.description else { throw AnnalsError.relayRolledBack(operation: "clone") }
    }

    private func membership(_ lineage: Lineage, sealedUnder: UInt64?) -> Membership {
        Membership(
            name: name, relay: address, space: space, lineage: lineage, credentialFile: credentialFile, trust: trust,
            spaceKeyFile: spaceKeyFile, sealedUnder: sealedUnder)
    }
}

extension SpaceDescription {
    /// Whether the space has no content, so that the next store creates it.
    fileprivate var isEmpty: Bool { head == .zero && snapshot == nil }
}
