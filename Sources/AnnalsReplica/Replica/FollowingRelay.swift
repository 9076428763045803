package import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// The result of following a relay that was restored from a backup.
package struct FollowedRelay: Sendable {
    package var status: ExchangeStatus
    /// The last position that both logs have.
    package var position: Position
    /// Transactions of the log that the relay lost. They are in the outbox now, before all other transactions.
    package var transactions: Int

    package init(status: ExchangeStatus, position: Position, transactions: Int) {
        self.status = status
        self.position = position
        self.transactions = transactions
    }
}

/// The newest entries of the log that a replica stores.
package struct RecentEntries {
    /// One transaction, in one batch or in several parts.
    package struct Unit {
        /// The rows of `annals_log` that hold it. Several rows are its parts.
        package var rows: [Position]
        /// Its index in the batch.
        package var index: Int
        package var position: Position
        /// The header of its first part.
        package var header: BatchHeader
    }

    private let db: Database
    private let state: ReplicaState

    package init(_ db: Database, _ state: ReplicaState) {
        self.db = db
        self.state = state
    }

    /// The newest rows up to this replica's position that have no gap between them.
    private func rows() throws -> [RecentLog.Row] {
        let all = try RecentLog.rows(db).filter { $0.last <= state.position }
        var first = all.count
        var next = state.position.next
        while first > 0, all[first - 1].last.next == next {
            first -= 1
            next = all[first].position
        }
        return Array(all[first...])
    }

    package func marks() throws -> [LogMark] {
        guard let own = state.logDigest else { return [] }
        var marks: [LogMark] = []
        var digest: Digest?
        for row in try rows() {
            digest = row.digest ?? digest
            guard let before = digest else { continue }
            marks.append(mark(row.position.advanced(by: -1), before))
            let header = try BatchHeader.parse(RecentLog.batch(db, at: row.position))
            digest = header.certificates[row.firstIndex..<row.firstIndex + row.entries].reduce(before) { $0.following($1.digest) }
        }
        guard digest == nil || digest == own else { throw Corruption("\(OwnTables.log).digest") }
        return marks + [mark(state.position, own)]
    }

    private func mark(_ position: Position, _ digest: Digest) -> LogMark {
        LogMark(lineage: state.lineage, position: position, digest: digest)
    }

    /// The entries after a position, in the order in which the rows hold them; nil if some of them are not stored.
    func units(after position: Position) throws -> [Unit]? {
        let ahead = try Outbox.ahead(db).sorted()
        let kept = try rows().filter { $0.last > position }
        let own = try RecentLog.rows(db).filter { $0.position > state.position }
        guard position == state.position || kept.first.map({ $0.position <= position.next }) ?? false,
            own.flatMap({ row in (0..<row.entries).map { row.position.advanced(by: $0) } }) == ahead
        else { return nil }
        var units: [Unit] = []
        for row in kept + own {
            let header = try BatchHeader.parse(RecentLog.batch(db, at: row.position))
            guard header.part.isWhole else {
                if header.part.number == 0 {
                    units.append(Unit(rows: [row.position], index: 0, position: row.position, header: header))
                } else {
                    guard let last = units.indices.last, units[last].rows.count == header.part.number else { return nil }
                    units[last].rows.append(row.position)
                    units[last].position = row.position
                }
                continue
            }
            for index in row.firstIndex..<row.firstIndex + row.entries {
                let place = row.position.advanced(by: index - row.firstIndex)
                if place > position { units.append(Unit(rows: [row.position], index: index, position: place, header: header)) }
            }
        }
        return units.allSatisfy { $0.rows.count == $0.header.part.count } ? units : nil
    }

    package func content(of unit: Unit, _ cipher: SpaceCipher?) throws -> TransactionParts {
        TransactionParts(count: unit.rows.count) { number in
            let row = unit.rows[number]
            let batch = try SealedEntry.open(RecentLog.batch(db, at: row), at: row, state, cipher)
            return TransactionParts.Part(reader: try batch.body(unit.index), layouts: batch.layouts)
        }
    }
}

/// Moves the newest entries of the log back to the outbox.
package struct FollowingRelay {
    package let db: Database
    package let step: StoreStep
    private var state: ReplicaState
    private let session: MergeSession
    private let entries: RecentEntries

    package init(_ db: Database, _ step: StoreStep) throws {
        guard let state = try ReplicaState.load(db), try Meta(db).text(.joinStage) == nil else { throw ReplicaExchange.logRolledBack }
        self.db = db
        self.step = step
        self.state = state
        session = MergeSession(db, registry: try step.tables())
        entries = RecentEntries(db, state)
    }

    /// Returns the number of transactions that the relay lost.
    package mutating func run(_ mark: LogMark, head: Position) throws -> Int {
        guard mark.lineage == state.lineage, mark.position <= state.position, let units = try entries.units(after: mark.position) else {
            throw Self.notKept
        }
        try putIntoOutbox(units)
        try goBack(to: mark, head: head, units)
        return units.count
    }

    // MARK: The outbox

    private func putIntoOutbox(_ units: [RecentEntries.Unit]) throws {
        let first = min(try Outbox.first(db) ?? 1, 1) - Int64(units.count)
        let cipher = try step.cipher()
        let missingSchema = try MissingSchema.load(db)
        for (offset, unit) in units.enumerated() {
            guard unit.header.replica != .relay, !unit.header.isVoided else { throw Self.voided(unit.position) }
            let content = try entries.content(of: unit, cipher)
            try put(content, unit, at: first + Int64(offset), missingSchema)
        }
    }

    private func put(_ content: TransactionParts, _ unit: RecentEntries.Unit, at sequence: Int64, _ missingSchema: MissingSchema) throws {
        let parts = Outbox.PartWriter(db, sequence: sequence, limits: step.outboxLimits)
        var info = try content.info()
        // This replica sends it. Its author remains.
        info.replicaName = state.name
        var builder = BodyBuilder(info, key: .none, parts: parts)
        var journal: [JournalEntry] = []
        let rest = try content.rest { entries, _ in journal += entries }
        guard rest.voids.isEmpty else { throw Self.voided(unit.position) }
        // The next schema entry repeats additions, which are in this store's tables, and renames.
        if let schema = rest.schema { try SpaceRename.add(schema.renames, db) }
        builder.decide(UserDecisions(rest))
        var isSame = true
        try content.forEachChange { layout, change in
            guard !missingSchema.touches(layout.name) else { throw Self.behindSchema(unit.position) }
            guard try !session.ignores(layout.name) else {
                isSame = false
                return
            }
            let table = try session.table(first: layout.name)
            let inUse = try session.layoutInUse(layout, in: table)
            isSame = isSame && inUse.isSame
            builder.beginTable(table.layoutID)
            var mark = change.mark
            // The mark names a position that has another meaning from now on.
            if case .revived? = mark { mark = nil }
            let translated = inUse.isSame ? change.change : inUse.translated(change.change)
            try builder.copy(MarkedChange(translated, mark: mark.map(inUse.translated), age: change.age))
        }
        try builder.journal(journal)
        let footprint = unit.header.certificates[unit.index].footprint
        guard !builder.isEmpty else { return }
        try Outbox.insert(db, builder.finish(touching: isSame ? footprint : .everything), at: sequence)
    }

    // MARK: Progress in the log

    private mutating func goBack(to mark: LogMark, head: Position, _ units: [RecentEntries.Unit]) throws {
        for unit in units.reversed() {
            let link = AuthorChains.Link(
                counter: Counter(unit.header.counter(of: unit.index).rawValue - 1), digest: unit.header.previousDigest(of: unit.index))
            if unit.header.replica == state.replica {
                (state.lastCounter, state.lastDigest) = (link.counter, link.digest)
            } else {
                try AuthorChains.goBack(db, to: link, of: unit.header.replica)
            }
        }
        state.position = mark.position
        state.logDigest = mark.digest
        state.head = head
        try state.saveProgress(db)
        if let schema = try RecentLog.schema(db, at: mark.position) { try schema.save(db) }
        try Outbox.passAll(db, through: Position(SchemaLimits.positions.upperBound))
        try BufferedParts.clear(db)
        try RecentLog.drop(db, after: mark.position)
        try LogDigests.drop(db, after: mark.position)
        try PassedVoids.drop(db, after: mark.position)
        // The conflicts are added again with their transactions.
        try ConflictJournal.forget(db, after: mark.position)
        try TransactionTable(db).forgetPositions(after: mark.position)
        // Other replicas may have pushed the same transactions by now.
        try Meta(db).set(.isCopy, 1)
    }

    // MARK: Errors

    private static let hint =
        "Nothing was changed, and local work can continue. Let the other replicas follow the relay first; "
        + "then keep this file, and clone the space again"

    private static var notKept: AnnalsError {
        AnnalsError(
            .relayRolledBack, operation: "sync",
            "the relay was restored from a backup, and this store no longer has all entries that the relay lost", hint: hint)
    }

    private static func voided(_ position: Position) -> AnnalsError {
        AnnalsError(
            .relayRolledBack, operation: "sync",
            "the relay was restored from a backup, and the lost entry at position \(position) was voided", hint: hint)
    }

    private static func behindSchema(_ position: Position) -> AnnalsError {
        AnnalsError(
            .relayRolledBack, operation: "sync",
            "the relay was restored from a backup, and the lost entry at position \(position) has tables or columns that this store "
                + "does not have",
            hint: "Nothing was changed, and local work can continue. Let the application migrate the store, then sync again")
    }
}
