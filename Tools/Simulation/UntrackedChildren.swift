import AnnalsCore
import GRDB

/// A program creates a table without history that refers to a tracked table, and fills it with references to rows that exist.
///
/// No exchange may leave one of its rows without a parent. If a parent gets another key, its rows follow it.
struct UntrackedChildren: Fault, Equatable {
    var parent: String
    var name: String
    var onDelete: Action
    var onUpdate: Action
    var isNotNull: Bool
    /// Refers to every row whose place, in the order of the key, is a multiple of this.
    var every: Int

    static let name = "untracked children"
    /// Percent of worlds.
    private static let share = 8
    private static let firstStep = 970

    static func add(to plan: inout Plan, _ features: Features) {
        var dice = Dice(seed: plan.seed, 23)
        guard features.untrackedChildren, features.strangers, dice.chance(share) else { return }
        let steps = (0..<dice.number(1...3)).map { number in
            let fault = UntrackedChildren(
                parent: dice.one(of: plan.schema.tables).name, name: "untracked\(number + 1)",
                onDelete: dice.one(of: [.noAction, .restrict, .setNull, .cascade]),
                onUpdate: dice.one(of: [.noAction, .cascade, .setNull]),
                isNotNull: dice.chance(30), every: dice.number(1...2))
            return Step(
                number: firstStep + number, at: Int64(dice.number(0...Int(plan.length))), replica: dice.number(0...plan.replicas.count - 1),
                action: .fault(fault))
        }
        plan.insert(steps)
    }

    var text: String {
        "creates \(name), which refers to every \(every == 1 ? "" : "\(every). ")row of \(parent) on delete \(onDelete.rawValue)"
            + " on update \(onUpdate.rawValue)\(isNotNull ? ", not null" : "")"
    }

    func perform(on number: Int, in space: SimulatedSpace) async throws {
        let replica = space.replicas[number]
        guard let table = space.plan.schema.table(parent) else { return }
        let columns = table.key.indices.map { "p\($0)" }
        let declared = columns.map { isNotNull ? "\($0) NOT NULL" : $0 }.joined(separator: ", ")
        let list = columns.joined(separator: ", ")
        let create = """
            CREATE TABLE \(name) (id INTEGER PRIMARY KEY, \(declared), FOREIGN KEY (\(list)) REFERENCES \(parent) (\(table.names(table.key)))
            ON DELETE \(onDelete.rawValue) ON UPDATE \(onUpdate.rawValue))
            """
        let fill = """
            INSERT INTO \(name) (\(list)) SELECT \(table.names(table.key)) FROM (
                SELECT \(table.names(table.key)), row_number() OVER (ORDER BY \(table.names(table.key))) AS place
                FROM \(parent) WHERE \(table.hasWholeKeySQL)) WHERE place % \(every) = 0
            """
        try replica.asStranger([create, fill], isTolerant: false, checksParents: true)
        replica.untracked.append(self)
        try space.observe(replica, after: .strangers)
    }

    /// A delete or a new key of a parent that the child's foreign key refuses.
    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool {
        error.code == .constraint && error.message.contains("is not tracked") && space.replicas.contains { !$0.untracked.isEmpty }
    }

    /// Whether the foreign key always says what happens to a row without its parent.
    private var settlesItself: Bool {
        (onDelete == .cascade || (onDelete == .setNull && !isNotNull)) && onUpdate != .noAction && !(onUpdate == .setNull && isNotNull)
    }

    /// The program drops the tables that may refuse an entry.
    static func end(in space: SimulatedSpace) async throws {
        for replica in space.replicas {
            let refusing = replica.untracked.filter { !$0.settlesItself }
            guard !refusing.isEmpty else { continue }
            try replica.asStranger(refusing.map { "DROP TABLE \($0.name)" }, isTolerant: false, checksParents: false)
            replica.untracked.removeAll { !$0.settlesItself }
            try space.observe(replica, after: .strangers)
        }
    }
}

/// The rows of the untracked children at a look.
struct UntrackedRows {
    /// The references of each row, by table and id.
    var references: [String: [Int64: [Cell]]] = [:]
    /// The rows without a parent, by table.
    var dangling: [String: Set<Int64>] = [:]

    init() {}

    init(_ db: Database, _ children: [UntrackedChildren]) throws {
        for child in children {
            for row in try Row.fetchAll(db, sql: "SELECT * FROM \(child.name)") {
                references[child.name, default: [:]][row["id"]] = row.databaseValues.dropFirst().map(Cell.init)
            }
            dangling[child.name] = Set(try Row.fetchAll(db, sql: "PRAGMA foreign_key_check(\(child.name))").map { $0["rowid"] })
        }
    }
}

extension Cell {
    fileprivate init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let value): self = .integer(value)
        case .double(let value): self = .real(value)
        case .string(let value): self = .text(value)
        case .blob(let value): self = .blob(Array(value))
        }
    }
}

extension SimulatedSpace {
    func checkUntracked(_ replica: Replica, _ before: Look, _ now: Look, _ cause: Cause) throws {
        guard !replica.untracked.isEmpty else { return replica.untrackedRows = UntrackedRows() }
        let (old, new) = (replica.untrackedRows, try replica.read { db in try UntrackedRows(db, replica.untracked) })
        replica.untrackedRows = new
        // External programs may have foreign keys off.
        if cause == .strangers { return }
        for child in replica.untracked {
            let lost = (new.dangling[child.name] ?? []).subtracting(old.dangling[child.name] ?? [])
            guard lost.isEmpty else {
                throw Violation("law 4", "\(replica.name): rows \(lost.sorted()) of \(child.name) lost their parent")
            }
            try checkFollowed(replica, child, old, new, renumbered(child.parent, before, now))
            if cause == .reply, child.onUpdate == .cascade { try checkFollowed(replica, child, old, new, moved(child.parent, before, now)) }
        }
    }

    /// Integer keys of unsent rows that got another key.
    private func renumbered(_ parent: String, _ before: Look, _ now: Look) -> [Int64: Int64] {
        guard let table = plan.schema.table(parent), table.hasIntegerKey else { return [:] }
        var renumbered: [Int64: Int64] = [:]
        for waiting in before.outbox {
            guard let other = now.outbox.first(where: { $0.id == waiting.id }) else { continue }
            let (rows, others) = (Self.inserted(waiting, table), Self.inserted(other, table))
            let gone = rows.filter { row in !others.contains { $0[table.key[0]] == row[table.key[0]] } }
            let came = others.filter { row in !rows.contains { $0[table.key[0]] == row[table.key[0]] } }
            guard gone.count == 1, came.count == 1, Self.rest(gone[0], table) == Self.rest(came[0], table) else { continue }
            guard let key = gone[0][table.key[0]].integer, let next = came[0][table.key[0]].integer else { continue }
            // Another unsent transaction may have changed the row, its key, or the references to it.
            guard before.outbox.count(where: { $0.touches(table, key) }) == 1 else { continue }
            renumbered[key] = next
        }
        return renumbered
    }

    /// Integer keys that the pulled entries changed, of rows that nothing else touched.
    private func moved(_ parent: String, _ before: Look, _ now: Look) -> [Int64: Int64] {
        guard let table = plan.schema.table(parent), table.hasIntegerKey, now.position > before.position, now.replica == before.replica
        else {
            return [:]
        }
        let entries = (before.position + 1...now.position).map(oracle.entry)
        guard !entries.contains(where: { $0.isSnapshot || $0.hasSchema }) else { return [:] }
        let pulled = entries.flatMap(\.changes)
        let unsent = (before.outbox + now.outbox).flatMap(\.decoded.changes)
        var moved: [Int64: Int64] = [:]
        for entry in entries where entry.replica != now.replica {
            for change in entry.changes where change.table == parent {
                guard case .update(let old, let cells) = change.kind, let key = old[0].integer,
                    let next = cells.first(where: { $0.column == table.key[0] })?.new.integer
                else { continue }
                let isAlone = [key, next].allSatisfy { key in
                    pulled.count { $0.touches(table, key) } == 1 && !unsent.contains { $0.touches(table, key) }
                }
                if isAlone { moved[key] = next }
            }
        }
        return moved
    }

    private static func inserted(_ waiting: Look.Waiting, _ table: Table) -> [[Cell]] {
        waiting.decoded.changes.compactMap { change in
            if change.table == table.name, case .insert(let row) = change.kind { row } else { nil }
        }
    }

    private static func rest(_ row: [Cell], _ table: Table) -> [Cell] {
        table.columns.indices.filter { !table.key.contains($0) }.map { row[$0] }
    }

    private func checkFollowed(
        _ replica: Replica, _ child: UntrackedChildren, _ old: UntrackedRows, _ new: UntrackedRows, _ renumbered: [Int64: Int64]
    ) throws {
        for (id, cells) in old.references[child.name] ?? [:] {
            guard let key = cells.first?.integer, let next = renumbered[key], old.dangling[child.name]?.contains(id) != true else {
                continue
            }
            let found = new.references[child.name]?[id]?.first
            guard found != .integer(next) else { continue }
            throw Violation(
                "merge rule 25", "\(replica.name): row \(id) of \(child.name) refers to \(found?.literal ?? "nothing") and not to \(next)")
        }
    }
}

extension Look.Waiting {
    fileprivate func touches(_ table: Table, _ key: Int64) -> Bool { decoded.changes.contains { $0.touches(table, key) } }
}

extension Change {
    /// Whether it inserts, changes or deletes a row under this key.
    fileprivate func touches(_ table: Table, _ key: Int64) -> Bool {
        guard self.table == table.name else { return false }
        return switch kind {
        case .insert(let row), .delete(let row): row[table.key[0]] == .integer(key)
        case .update(let old, let cells):
            old == [.integer(key)] || cells.contains { $0.column == table.key[0] && $0.new == .integer(key) }
        }
    }
}
