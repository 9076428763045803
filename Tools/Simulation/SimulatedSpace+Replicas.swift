import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsWire
import Foundation
import GRDB

/// The creation of replicas.
extension SimulatedSpace {
    /// The first database, with the rows from which the space is created.
    static func firstDatabase(_ plan: Plan, _ clock: WallClock, _ folder: SimulationFolder) throws -> DatabaseQueue {
        let database = try Replica.open(plan.replicas[0].isInFile ? folder.file("r0.db") : nil, clock)
        try database.writeWithoutTransaction { db in
            for statement in plan.schema.statements { try db.execute(sql: statement) }
            for row in plan.rows {
                try? db.inTransaction {
                    try db.execute(sql: row)
                    return .commit
                }
            }
        }
        return database
    }

    static func rows(_ database: DatabaseQueue, _ schema: Schema) throws -> Rows {
        try database.unsafeRead { db in try Look.rows(db, schema) }
    }

    /// The first replica creates the space from its rows.
    func addFirst(_ database: DatabaseQueue, _ clock: WallClock) async throws {
        let identities = identities(0)
        let store = try Store(wrapping: database, configuration: configuration("r0", clock, identities))
        _ = try await store.track(.tables(plan.schema.tables.map(\.name)))
        let references = plan.schema.referenceSettings
        if !references.isEmpty { try await store.setReferences(references) }
        _ = try await joining(0, clock, identities).join(store)
        try await add(0, database, clock, identities)
    }

    /// In one world of three, the second replica is cloned from the relay. The others begin as copies of that clone, or of the
    /// first replica, with new identities. The result is equal to a clone of each and takes a fraction of the time.
    func addReplicas() async throws {
        let path = folder.file("clone.db")
        let hasClone = plan.seed % 3 == 0 && !plan.schema.usesProgram
        var template: DatabaseQueue?
        for number in plan.replicas.indices.dropFirst() {
            let (clock, identities) = (clock(number), identities(number))
            if hasClone, number == 1 { _ = try await joining(number, clock, identities).clone(to: path) }
            let file = try template ?? (hasClone ? DatabaseQueue(path: path) : replicas[0].outside)
            template = file
            let database = try Replica.open(plan.replicas[number].isInFile ? folder.file("r\(number).db") : nil, clock)
            try Self.load(file, into: database)
            if number > 1 || !hasClone { try Self.rename(database, "r\(number)", identities) }
            try await add(number, database, clock, identities)
        }
    }

    /// A replica that joins later, from the snapshot and the log after it.
    func addNewcomer() async throws {
        let number = replicas.count
        let (clock, identities) = (WallClock(time), identities(number))
        let path = folder.file("r\(number)-clone.db")
        try await startRelay()
        machine.power.spare()
        _ = try await joining(number, clock, identities).clone(to: path)
        let database = try Replica.open(nil, clock)
        try Self.load(DatabaseQueue(path: path), into: database)
        try await add(number, database, clock, identities)
        try observe(replicas[number], after: .nothing)
    }

    /// Copies a file as it is, with its identity and unsent transactions. Neither program knows about the other.
    func addCopy(of number: Int) throws {
        let source = replicas[number]
        let name = "r\(replicas.count)"
        let (clock, identities) = (WallClock(time), identities(replicas.count))
        let database = try Replica.open(nil, clock)
        try source.outside.backup(to: database)
        // SQLite's backup changes the schema version. A file copy keeps it, so it is set back.
        let version = try source.outside.unsafeRead { db in try Int64.fetchOne(db, sql: "PRAGMA schema_version") } ?? 0
        try database.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA schema_version = \(version)") }
        let copy = try Replica(clock: clock, configuration: configuration(name, clock, identities), database: database, path: nil)
        copy.look = source.look
        copy.seenNumber = source.seenNumber
        copy.newestOwnNumber = source.newestOwnNumber
        copy.rowsBeforeStrangers = source.rowsBeforeStrangers
        copy.tableNumbers = source.tableNumbers
        copy.accepted = source.accepted
        (source.isCopied, copy.isCopied) = (true, true)
        copy.overrides = source.overrides
        (copy.mayHoldUnseen, copy.hasMigrated) = (source.mayHoldUnseen, source.hasMigrated)
        (copy.lostLog, copy.keepsLostParts) = (source.lostLog, source.keepsLostParts)
        copy.readers = source.readers
        (copy.untracked, copy.untrackedRows) = (source.untracked, source.untrackedRows)
        ledger.noteCopy(name, of: source.name, through: source.seenNumber)
        replicas.append(copy)
    }

    func clock(_ number: Int) -> WallClock {
        WallClock(time, offset: plan.replicas[number].clockOffset, drift: plan.replicas[number].clockDrift)
    }

    private func identities(_ number: Int) -> Identities {
        Identities(Dice(seed: plan.seed, 6, UInt64(number)))
    }

    private func configuration(_ name: String, _ clock: WallClock, _ identities: Identities) -> Store.Configuration {
        var configuration = Replica.configuration(name, clock, identities, plan.sizes)
        configuration.spaceKeys = spaceKeys
        if plan.schema.change != nil { configuration.newSchemas = .take }
        // This is not drawn, so that the other worlds do not change.
        if plan.seed % 4 == 1 { configuration.largeValue = 0 }
        return configuration
    }

    private func joining(_ number: Int, _ clock: WallClock, _ identities: Identities) -> Joining {
        let name = "r\(number)"
        return Joining(
            transport: relay, address: "http://127.0.0.1:1", space: space, name: name, spaceKeys: spaceKeys,
            configuration: configuration(name, clock, identities),
            environment: .init(pause: { _ in throw CancellationError() }, random: { 0.5 }))
    }

    private func add(_ number: Int, _ database: DatabaseQueue, _ clock: WallClock, _ identities: Identities) async throws {
        let isInFile = number < plan.replicas.count && plan.replicas[number].isInFile
        try fillCopies(database)
        let replica = try Replica(
            clock: clock, configuration: configuration("r\(number)", clock, identities), database: database,
            path: isInFile ? folder.file("r\(number).db") : nil)
        replica.tableNumbers = try replica.read { try Look.tableNumbers($0) }
        replicas.append(replica)
        replica.look = try look(replica)
        replica.seenNumber = replica.look.recorded.last?.number ?? 0
    }

    /// A clone's untracked tables are empty; the app fills them.
    private func fillCopies(_ database: DatabaseQueue) throws {
        try database.writeWithoutTransaction { db in
            for copy in plan.schema.copies { try db.execute(sql: copy.fill) }
        }
    }

    /// SQLite's backup changes the schema version. The stored version is adapted here, so that only a copied file (`addCopy`) has
    /// its triggers checked for this reason.
    private static func load(_ file: DatabaseQueue, into database: DatabaseQueue) throws {
        try file.backup(to: database)
        try database.writeWithoutTransaction { db in
            let version = try Int64.fetchOne(db, sql: "PRAGMA schema_version") ?? 0
            try db.execute(sql: "UPDATE annals_meta SET value = ? WHERE name = 'schema_version'", arguments: [version])
        }
    }

    private static func rename(_ database: DatabaseQueue, _ name: String, _ identities: Identities) throws {
        let key = (0..<4).flatMap { _ in withUnsafeBytes(of: identities.next().littleEndian, Array.init) }
        guard let key = ReplicaKey(bytes: key) else { preconditionFailure("a key has 32 bytes") }
        let store = StoreID(high: identities.next(), low: identities.next())
        try database.write { db in
            try Self.noteFormerSelf(db)
            let names = [("replica", key.replica.description), ("store_id", store.description), ("replica_name", name)]
            let nothingSent: [(String, any DatabaseValueConvertible)] = [
                ("replica_key", Data(key.bytes)), ("last_counter", 0), ("last_digest", Data(Digest.zero.bytes)),
            ]
            for (fact, value) in names + nothingSent {
                try db.execute(sql: "UPDATE annals_meta SET value = ? WHERE name = ?", arguments: [value, fact])
            }
        }
    }

    /// From here on, the transactions that the copied file has sent belong to another author.
    private static func noteFormerSelf(_ db: Database) throws {
        let facts = try Row.fetchAll(db, sql: "SELECT name, value FROM annals_meta").reduce(into: [String: DatabaseValue]()) { facts, row in
            facts[row[0]] = row[1]
        }
        guard let id = facts["replica"].flatMap(String.fromDatabaseValue).flatMap({ ReplicaID($0) }),
            let counter = facts["last_counter"].flatMap(Int64.fromDatabaseValue), counter > 0,
            let digest = facts["last_digest"].flatMap(Data.fromDatabaseValue)
        else { return }
        try db.execute(
            sql: "INSERT OR REPLACE INTO annals_authors (replica, counter, digest) VALUES (?, ?, ?)",
            arguments: [Data(id.bytes), counter, digest])
    }
}
