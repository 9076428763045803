package import AnnalsCore
package import AnnalsReplica
import AnnalsSQLite
package import AnnalsStore
import AnnalsWire
import Foundation
import Synchronization

/// Makes replicas: a store that joins a space, or a new file cloned from one.
///
///     let joining = Joining(transport: relay, address: "http://127.0.0.1:8640", space: space, name: "laptop")
///     _ = try await joining.clone(to: "laptop.db")
package struct Joining: Sendable {
    /// What a join did.
    package enum Outcome: Sendable {
        /// The space is new; its rows are the store's.
        case created(Position)
        /// The space existed and its rows are the store's.
        case recognised(Position)
        /// The space existed with other rows, and both came together.
        case merged(Position, ExistingSummary)
    }

    /// What a clone made.
    package struct Clone: Sendable {
        package var position: Position
        /// Untracked tables of the space, which come empty.
        package var emptyTables: [String]
        /// Newer snapshots that could not be used, so that an older one and the log after it were taken.
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
    /// Told what goes on: a stage, and bytes done in it.
    let progress: @Sendable (Stage, Int64) -> Void

    /// What a join would find.
    package enum Prospect: Sendable {
        /// There is no such space yet: it would be made from the store's rows.
        case new
        /// The space exists; how its rows and the store's compare.
        case existing(RowDifferences)
    }

    package typealias Stage = SyncEvent.Transfer.Stage

    /// - Parameters:
    ///   - transport: the way to the relay.
    ///   - address: the relay's base address.
    ///   - space: the space.
    ///   - name: what the relay shows to its operator.
    ///   - credentialFile: the file that holds the token; the store remembers it.
    ///   - trust: whom to trust at an https address.
    ///   - spaceKeys: the space's keys, where it is sealed or is to be; without them those of `configuration`.
    ///   - spaceKeyFile: where they are from; the store that joins, or is made, reads it again. A store that was opened with
    ///     keys of its own needs none.
    ///   - configuration: how the store is opened.
    ///   - environment: clock and identities, which a test gives.
    ///   - progress: told how far it is.
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

    /// Makes the store a replica: creates the space from its rows if it is new, or recognises equal rows.
    ///
    /// A join that was interrupted is taken up again by calling this once more. A space that somebody began and never put
    /// anything into is new.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - existing: what becomes of rows that differ from the space's; without it they are refused. A store without rows needs none.
    ///   - schema: what may be declared otherwise than in the space.
    /// - Throws: `AnnalsError`; code `rowsDiffer` when the space exists and its rows are not the store's, `schemaRefused`
    ///   when its tables are declared otherwise, `constraint` when rows break a foreign key. Nothing was changed then.
    package func join(_ store: Store, existing: ExistingRows? = nil, schema: JoinedSchema = .equal) async throws -> Outcome {
        if try await store.replicaState() != nil, try await store.creationStage() == nil {
            throw AnnalsError(.alreadyJoined, operation: "join", "the store is joined to a space already", hint: "Run annals leave first")
        }
        try await checkKeys(of: store)
        // Before anything is asked of the relay, so that no space is left without rows.
        if try await store.status().tracked.isEmpty {
            throw AnnalsError(.notTracked, operation: "join", "no table is tracked", hint: "Run annals track first")
        }
        if existing != .theirs { try await store.checkReferences() }
        do {
            for _ in 0..<SyncLimits.joinAttempts {
                if let outcome = try await attempt(store, existing, schema) { return outcome }
            }
        } catch let error as TransportError {
            throw error.annalsError
        }
        throw AnnalsError(
            .busy, operation: "join", "others make the space \(space) at this moment", hint: "Run annals join again", isRetryable: true)
    }

    /// A store that has keys must not make a space that its relay can read, and one that cannot have them none that is sealed.
    private func checkKeys(of store: Store) async throws {
        let own = store.configuration.spaceKeys
        if spaceKeys == nil, own != nil {
            throw AnnalsError(
                .configuration, operation: "join", "the store was opened with a space key, and joins without one",
                hint: "Give the key to the join as well, or open the store without; nothing was changed")
        }
        if spaceKeys != nil, own == nil, spaceKeyFile == nil {
            throw AnnalsError(
                .configuration, operation: "join", "the space is to be sealed, and the store would not have its key",
                hint: "Open the store with the key, or name its file; nothing was changed")
        }
        // A join that was interrupted goes on as it began.
        guard let begun = try await store.replicaState(), begun.space == space else { return }
        switch (begun.sealedUnder, spaceKeys) {
        case (let id?, nil): throw AnnalsError.keyNeeded(for: space, id, operation: "join")
        case (let id?, let ring?) where ring.key(id) == nil: throw AnnalsError.otherKey(for: space, id, spaceKeyFile, operation: "join")
        case (nil, _?): throw AnnalsError.notSealed(space, operation: "join")
        default: break
        }
    }

    /// nil when another store made the space meanwhile: look again.
    private func attempt(_ store: Store, _ existing: ExistingRows?, _ schema: JoinedSchema) async throws -> Outcome? {
        // In this order: what was begun meanwhile is then never taken for something that the relay does not have.
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
            // What this store began is not what the relay has, so it is as if it never had.
            try await store.abandonSpace(stage.lineage)
        }
        guard let description else { return try await create(store, nil) }
        if description.isEmpty { return try await create(store, description) }
        if let first = try await abandonedFirstEntry(description, store) { return try await create(store, description, after: first) }
        return try await recognise(store, description, existing, schema)
    }

    /// nil when there is no such space.
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

    /// Says what a join would find, and changes nothing here or at the relay.
    ///
    /// - Throws: `AnnalsError` where `join` would, whatever became of rows that differ.
    package func prospect(of store: Store, schema: JoinedSchema = .equal) async throws -> Prospect {
        do {
            guard let description = try await describe(), !description.isEmpty else {
                try await store.checkReferences()
                return .new
            }
            return try await withTemporaryFolder(beside: store.path, for: Self.purpose(ofDownload: description)) { folder in
                let (copy, _) = try await replica(in: folder, description)
                let differences = try await store.differences(from: copy.path, schema: schema)
                try copy.close()
                return .existing(differences)
            }
        } catch let error as TransportError {
            throw error.annalsError
        }
    }

    /// Brings the first entry and the first snapshot to the relay; nil when another store's are there.
    ///
    /// What can fail here is tried before the space is made.
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

    /// Seals the rows with which the space begins; nil where it is not sealed.
    private func sealer(of store: Store) async throws -> SnapshotSealer? {
        guard let spaceKeys, let state = try await store.replicaState() else { return nil }
        let logDigest = state.position == Position.first ? state.logDigest : nil
        let first = LogMark(lineage: state.lineage, position: Position.first, digest: logDigest)
        return try spaceKeys.cipher(for: space).sealer(of: first)
    }

    /// Brings a packed snapshot that an earlier process made for the same join, so that what the relay has of it is not sent
    /// again; nil when there is none, or another store's came first.
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
            func merge(_ existing: ExistingRows) async throws -> Outcome {
                let summary = try await store.adopt(copy, existing: existing, schema: schema)
                return .merged(try await position(of: store), summary)
            }
            if let existing { return try await merge(existing) }
            let differences = try await store.differences(from: copy.path, schema: schema)
            // Rows that are written meanwhile are kept by this rule.
            if differences.hasNoneHere || (differences.areEqual && !differences.haveEqualTables) { return try await merge(.sameKey) }
            throw AnnalsError(
                .rowsDiffer, operation: "join", "the space \(space) has other rows than this store: \(Self.describe(differences))",
                hint: "Nothing was changed. Say what becomes of rows that differ with --existing same-key, separate or theirs")
        }
    }

    package static func describe(_ differences: RowDifferences) -> String {
        differences.tables.filter { $0.onlyHere + $0.onlyThere + $0.differing > 0 }
            .map { "\($0.name) \($0.onlyHere) only here, \($0.onlyThere) only there, \($0.differing) differ" }
            .joined(separator: "; ")
    }

    // MARK: Clone

    /// Makes a new store at `path` from the space: the newest snapshot's rows by bulk, and the log after it.
    ///
    /// Untracked tables come empty. The file is in WAL mode, as every one that a store makes, and appears when it is whole. A transfer that
    /// the relay or a crash cut off is kept beside it for a day, for the next try to go on from; whoever is cancelled leaves nothing behind.
    ///
    /// - Throws: `AnnalsError`; code `cannotCreate` when the file exists.
    package func clone(to path: String) async throws -> Clone {
        guard !OutputFile.exists(path) else {
            throw AnnalsError(.cannotCreate, operation: "clone", "\(path) exists already", hint: "Choose another name")
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
            throw error.annalsError
        }
    }

    /// A replica in a temporary folder, brought up to the head.
    ///
    /// A member of the space made the snapshot, and may have made a bad one. Where it cannot be used, or the log does not fit its rows,
    /// the next older one is taken: the log after that leads to the same rows.
    ///
    /// - Returns: also the positions of the snapshots that could not be used.
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
                    try await SyncAgent(store: store, transport: LogThrough(of: transport), environment: environment).sync(.pullOnly)
                } catch {
                    try store.close()
                    // Of which log an older one is, its maker alone says.
                    let isOlder = tried.withLock { $0 } != description.snapshot?.position
                    if isOlder, (error as? AnnalsError)?.code == .relayWentBack { throw Self.otherLog }
                    throw error
                }
                return (store, unusable)
            } catch let error as AnnalsError where Self.mayHaveOlder(error) && unusable.count < SyncLimits.snapshotsPassedOver {
                first = first ?? error
                guard let position = tried.withLock({ $0 }), position > Position.first else { throw first ?? error }
                unusable.append(position)
                folder.clear()
            } catch {
                // There is no older one: what was wrong with the newest is what counts.
                throw first ?? error
            }
        }
    }

    private static var otherLog: AnnalsError {
        AnnalsError(.corruptBatch, operation: "clone", "the relay's snapshot says that it is of another log than the relay has")
    }

    /// Whether another snapshot may do where this one does not.
    static func isOfSnapshot(_ error: AnnalsError) -> Bool {
        // What a snapshot says of the authors may be made up, too, and then the log seems to lack entries.
        [.corruptBatch, .diverged, .schemaRefused, .notADatabase, .relayInconsistent].contains(error.code)
    }

    /// Whether a clone tries an older one. A file can claim a newer format; and what is unforeseen may come of a file that somebody made up.
    private static func mayHaveOlder(_ error: AnnalsError) -> Bool {
        isOfSnapshot(error) || [.newerFormat, .defect].contains(error.code)
    }

    /// Which snapshot a replica begins with.
    enum SnapshotChoice: Sendable {
        case newest
        /// The newest that holds no later position.
        case atOrBefore(Position)
        /// The one of that position, also where nobody has confirmed it.
        case exactly(Position)
    }

    /// A replica in a temporary folder, at a snapshot's position.
    ///
    /// - Parameters:
    ///   - isKept: the file is to be made durable in the end, which begins while its rows are looked through.
    ///   - received: is given the snapshot's position once it is here.
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
            guard error.code == .noSnapshot else { throw error.annalsError }
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
            // What a replica sealed goes before what the relay says.
            if let seal { return seal.position == $0 ? seal.logDigest : nil }
            // A newer one may have come since the space was described.
            return $0 == snapshot?.position ? snapshot?.logDigest.flatMap { Digest($0) } : nil
        }
        await storing
        // A purge and the pulls after it go by the position that the relay has.
        guard let claimed = claimed.withLock({ $0 }), try await store.replicaState()?.position == claimed else {
            try store.close()
            throw AnnalsError(
                .corruptBatch, operation: "clone", "the relay's snapshot holds the rows of another position than its maker told the relay")
        }
        return store
    }

    private func unfinished(_ description: SpaceDescription) -> AnnalsError {
        guard description.head <= Position.first else {
            return AnnalsError(
                .spaceUnfinished, operation: "clone", "the relay has lost the snapshot of the space \(space)",
                hint: "The next replica that has everything brings another when it syncs: then try again", isRetryable: true)
        }
        return AnnalsError(
            .spaceUnfinished, operation: "clone", "the space \(space) has no rows yet: the join that makes it is not done",
            hint: description.isEmpty
                ? "Join a store that has them"
                : "Try again in a moment. If that join was interrupted, run it again, or join another store with the same schema",
            isRetryable: true)
    }

    /// Of which log a sealed snapshot is, is what its maker said, not the relay.
    private func check(_ seal: SnapshotSeal, _ snapshot: SpaceDescription.Snapshot?, _ lineage: Lineage) throws {
        guard seal.lineage == lineage else { throw AnnalsError.relayWentBack(operation: "clone") }
        guard let snapshot, snapshot.position == seal.position, let told = snapshot.logDigest, let known = seal.logDigest else { return }
        guard told == known.description else { throw AnnalsError.relayWentBack(operation: "clone") }
    }

    private func membership(_ lineage: Lineage, sealedUnder: UInt64?) -> Membership {
        Membership(
            name: name, relay: address, space: space, lineage: lineage, credentialFile: credentialFile, trust: trust,
            spaceKeyFile: spaceKeyFile, sealedUnder: sealedUnder)
    }
}

extension SpaceDescription {
    /// Nobody has put anything into the space: whoever comes next makes it.
    fileprivate var isEmpty: Bool { head == .zero && snapshot == nil }
}
