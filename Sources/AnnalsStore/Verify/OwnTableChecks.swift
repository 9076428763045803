import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Checks that Annals' own tables hold values of the expected kinds. Another program may have written others, and then nothing else
/// can be checked.
struct OwnTableChecks {
    let db: Database

    func run() throws -> [Finding] {
        try places().map { place in
            let isReplicas =
                OwnTables.isReplicas(place.table) || place.table == OwnTables.renumbered || Meta.Name(rawValue: place.name) != nil
            return Finding(isReplicas ? .log : .history, Corruption("\(place.table).\(place.name)").message)
        }
    }

    /// Whether all unreadable values are in tables that can be created again.
    func areRepairable() throws -> Bool {
        try StoreError.unlessCorrupt { try hasReplicasTables() && places().allSatisfy { Self.rebuilt.contains($0.table) } } ?? false
    }

    /// Whether all tables exist and are readable.
    func areSound() throws -> Bool {
        try StoreError.unlessCorrupt { try HistoryChecks(db: db).missingTables().isEmpty && places().isEmpty } ?? false
    }

    private func hasReplicasTables() throws -> Bool {
        try !HistoryChecks(db: db).missingTables().contains { $0.code == .log }
    }

    private static let rebuilt: Set<String> = [OwnTables.transactions, OwnTables.spans, OwnTables.push, OwnTables.highest]

    /// Deletes the unreadable rows of tables.
    func dropUnreadable(in tables: String...) throws {
        for table in tables where try db.tableExists(table) {
            for column in try columns(of: table) {
                try db.execute(sql: "DELETE FROM main.\(table) WHERE \(column.isUnreadable)")
            }
        }
    }

    /// A column, or a value in `annals_meta`.
    private struct Place: Hashable {
        var table: String
        var name: String
    }

    private func places() throws -> [Place] {
        var places: [Place] = []
        for table in try OwnObjects.all(db).filter({ $0.type == "table" }).map(\.name) {
            for column in try columns(of: table) {
                let sql = "SELECT EXISTS (SELECT 1 FROM main.\(SQL.quote(table)) WHERE \(column.isUnreadable))"
                if try Bool.fetchOne(db, sql: sql) ?? false { places.append(Place(table: table, name: column.name)) }
            }
        }
        if !places.contains(where: { $0.table == OwnTables.meta }) { places += try facts() }
        let known = Set(places.map(\.table))
        return try places + encoded().filter { !known.contains($0.table) }
    }

    // MARK: Tables

    private struct Column {
        var name: String
        /// An SQL condition.
        var isUnreadable: String
    }

    /// The columns with a declared type; columns with user values have none. `RawChangeScan` checks the other contents of raw
    /// changes.
    private func columns(of table: String) throws -> [Column] {
        try Row.fetchAll(db, sql: "PRAGMA main.table_info(\(SQL.quote(table)))").compactMap { row in
            let (name, type): (String, String) = try (row.value("name"), row.value("type"))
            let isNullable = try row.value("notnull") == 0 && row.value("pk") == 0
            let quoted = SQL.quote(name)
            // A rowid is always an integer. The comparison uses its index.
            if name == "id", type == "INTEGER" {
                let (lowest, highest) = (CountedNumbers.range.lowerBound, CountedNumbers.range.upperBound)
                return Column(name: name, isUnreadable: "(id < \(lowest) OR id > \(highest))")
            }
            guard
                let isReadable = Self.isReadable(
                    quoted, type, Self.integers[name] ?? CountedNumbers.range, isEncoded: Self.encoded.contains(name))
            else { return nil }
            return Column(name: name, isUnreadable: "NOT (\(isReadable)\(isNullable ? " OR \(quoted) IS NULL" : ""))")
        }
    }

    /// Integers that are not counted from 1: times, durations, keys of the user's rows, kinds, and the order of the outbox, in
    /// which a schema entry comes before everything else.
    private static let integers: [String: ClosedRange<Int64>] = [
        "time": SchemaLimits.facts, "received_at": SchemaLimits.facts, "seen": SchemaLimits.facts, "lease": SchemaLimits.facts,
        "key": .min ... .max,
        "sequence": SchemaLimits.facts, "last_sequence": SchemaLimits.facts, "time_counter": 0...Int64(UInt32.max),
        "position": SchemaLimits.positions, "first_counter": SchemaLimits.positions, "counter": SchemaLimits.positions,
        "origin": range(of: TransactionOrigin.allCases.map { Int64($0.rawValue) }),
        "on_delete": range(of: ReferenceTarget.DeleteAction.allCases.map { Int64($0.rawValue) }),
        "aspect": range(of: PolicySetting.Aspect.allCases.map { Int64($0.rawValue) }),
    ]

    private static func range(of kinds: [Int64]) -> ClosedRange<Int64> { (kinds.min() ?? 0)...(kinds.max() ?? 0) }

    /// Texts that an encoder wrote as bytes.
    private static let encoded: Set<String> = ["old", "new"]

    private static func isReadable(_ name: String, _ type: String, _ integers: ClosedRange<Int64>, isEncoded: Bool) -> String? {
        switch type {
        case "INTEGER":
            "(typeof(\(name)) = 'integer' AND \(name) >= \(integers.lowerBound) AND \(name) <= \(integers.upperBound))"
        case "TEXT" where isEncoded: "typeof(\(name)) IN ('text', 'blob')"
        case "TEXT": "typeof(\(name)) = 'text'"
        case "BLOB": "typeof(\(name)) = 'blob'"
        default: nil
        }
    }

    // MARK: Values of annals_meta

    private func facts() throws -> [Place] {
        var types: [String: String] = [:]
        var wrong: [String] = []
        for row in try MetaTable(db).types() {
            let (name, type, number): (String, String, Int64?) = try (row.value("name"), row.value("type"), row.value("number"))
            guard StoreSchema.Meta(rawValue: name) != nil || Meta.Name(rawValue: name) != nil, type != "null" else { continue }
            types[name] = type
            if type != Self.type(of: name) || !(number.map(SchemaLimits.facts.contains) ?? true) { wrong.append(name) }
        }
        // A replica has its id, unless it is about to become a replica.
        let (replica, stage) = (Meta.Name.replica.rawValue, Meta.Name.joinStage.rawValue)
        if types[replica] == nil, types[stage] == nil, try StoreSchema.isReplica(db) { wrong.append(replica) }
        return wrong.sorted().map { Place(table: OwnTables.meta, name: $0) }
    }

    /// Values of the right kind that cannot be decoded.
    private func encoded() throws -> [Place] {
        var checks: [(place: Place, check: () throws -> Void)] = [
            (Place(table: OwnTables.tables, name: "columns"), { _ = try TrackedTable.fetchAll(db) }),
            (Place(table: OwnTables.meta, name: StoreSchema.Meta.storeID.rawValue), { _ = try HistoryBounds.storeID(db) }),
            (Place(table: OwnTables.meta, name: StoreSchema.Meta.clock.rawValue), { _ = try StoreClock.saved(db) }),
            (Place(table: OwnTables.meta, name: StoreSchema.Meta.unknownRows.rawValue), { _ = try UnknownRows.load(db) }),
            (Place(table: OwnTables.meta, name: "continued"), { _ = try ListContinuation.load(db) }),
            (Place(table: OwnTables.meta, name: "filled"), { _ = try FilledColumns.load(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.lineage.rawValue), { _ = try ReplicaState.load(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.replicaKey.rawValue), { _ = try ReplicaState.load(db)?.key() }),
            (Place(table: OwnTables.meta, name: StoreSchema.Meta.retention.rawValue), { _ = try Retention.own(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.spaceSchema.rawValue), { _ = try SpaceSchema.load(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.renames.rawValue), { _ = try SpaceRename.waiting(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.passedVoids.rawValue), { _ = try PassedVoids.load(db) }),
            (Place(table: OwnTables.meta, name: Meta.Name.syncProblem.rawValue), { _ = try SyncProblem.load(db) }),
            (Place(table: OwnTables.references, name: "columns"), { _ = try ReferenceTable.load(db) }),
        ]
        if try StoreSchema.isReplica(db) {
            checks.append((Place(table: OwnTables.outbox, name: "id"), { _ = try Outbox.rows(db) }))
            checks.append((Place(table: OwnTables.meta, name: "named"), { _ = try ReplicaNames.load(db) }))
            checks.append((Place(table: OwnTables.push, name: "batch"), { try Push.check(db) }))
            checks.append((Place(table: OwnTables.meta, name: Meta.Name.evidence.rawValue), { _ = try LogEvidence.load(db) }))
            checks.append((Place(table: OwnTables.authors, name: "digest"), { _ = try AuthorChains.all(db) }))
            checks.append(
                (Place(table: OwnTables.meta, name: Meta.Name.unconfirmedAuthors.rawValue), { _ = try UnconfirmedAuthors.load(db) }))
        }
        return try checks.compactMap { place, check in
            do {
                try check()
                return nil
            } catch  where StoreError.isCorruption(error) {
                return place
            }
        }
    }

    private static let texts: Set<String> = Set(
        [StoreSchema.Meta.storeID, .clock, .retention, .writtenByTriggers, .tablesLeft, .unknownRows].map(\.rawValue)
            + [
                Meta.Name.replica, .replicaName, .relay, .space, .lineage, .joinStage, .credentialFile, .caFile, .pins, .spaceKeyFile,
                .sealedUnder, .passedVoids, .syncProblem,
            ].map(\.rawValue))
    private static let blobs: Set<String> = Set(
        [Meta.Name.replicaKey, .logDigest, .lastDigest, .spaceSchema, .renames, .evidence, .unconfirmedAuthors].map(\.rawValue))

    private static func type(of fact: String) -> String {
        texts.contains(fact) ? "text" : blobs.contains(fact) ? "blob" : "integer"
    }
}
