import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The view `annals_context`, in which a program gives the author of its transaction in plain SQL.
///
///     BEGIN;
///     INSERT INTO annals_context(author, context) VALUES ('ann', 'import');
///     …
///     DELETE FROM annals_context;
///     COMMIT;
///
/// The INSERT and the DELETE are *moments*. At each of them a trigger for each tracked table stores the id of the table's last raw
/// change, if it is a new one. So the changes between the two moments are known when they are recorded, and they become one
/// transaction with this author. Within a SQLite transaction no other program can write between the two, because SQLite has one writer
/// at a time.
///
/// **The end needs a statement.** No trigger can detect a COMMIT, so without the DELETE the work of the next program would get the
/// name. If the next moment after an INSERT is not a DELETE, the INSERT names nothing. A DELETE of another program cannot be told apart.
///
/// All rows of these tables are deleted when the changes are recorded. A rollback removes the moments with the changes. Programs that
/// do not use the view pay nothing, except that a REPLACE or an UPSERT that meets a row reads one value more.
///
/// Only this file contains SQL on the two tables.
package struct NamedWriters {
    static let schema = """
        CREATE TABLE IF NOT EXISTS main.annals_context_moments(id INTEGER PRIMARY KEY, author TEXT, context TEXT);
        CREATE TABLE IF NOT EXISTS main.annals_context_marks(
          list INTEGER NOT NULL, moment INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY(list, moment)) WITHOUT ROWID;
        """

    package static let viewName = "annals_context"

    /// The view and its triggers, as sqlite_master has them after CREATE.
    private static let objects: [(type: String, name: String, body: String)] = [
        (
            "VIEW", viewName,
            """
            (author, context) AS SELECT author, context FROM annals_context_moments
            WHERE id = (SELECT max(id) FROM annals_context_moments) AND author IS NOT NULL
            """
        ),
        (
            "TRIGGER", "annals_context_insert",
            """
             INSTEAD OF INSERT ON annals_context BEGIN
            SELECT RAISE(ABORT, 'annals_context: the author must be text of 1 to \(HistoryLimits.authorBytes) bytes')
            WHERE typeof(NEW.author) <> 'text' OR length(CAST(NEW.author AS BLOB)) NOT BETWEEN 1 AND \(HistoryLimits.authorBytes);
            SELECT RAISE(ABORT, 'annals_context: the context must be NULL or text of at most \(HistoryLimits.contextBytes) bytes')
            WHERE typeof(NEW.context) NOT IN ('null', 'text') OR length(CAST(NEW.context AS BLOB)) > \(HistoryLimits.contextBytes);
            INSERT INTO annals_context_moments(author, context) VALUES(NEW.author, NEW.context);
            END
            """
        ),
        (
            "TRIGGER", "annals_context_delete",
            """
             INSTEAD OF DELETE ON annals_context BEGIN
            INSERT INTO annals_context_moments(author, context) VALUES(NULL, NULL);
            END
            """
        ),
    ]

    private static func sql(_ object: (type: String, name: String, body: String)) -> String {
        "CREATE \(object.type) \(object.name)\(object.body)"
    }

    // MARK: Installation

    /// Whether a view or a trigger with a name of these is Annals' own. A program may have its own view with the name.
    static func owns(_ type: String, _ name: String, sql: String) -> Bool {
        objects.contains { $0.type.lowercased() == type && $0.name == name && isSame(Self.sql($0), sql) }
            || (type == "trigger" && isMarkTrigger(name))
    }

    /// SQLite rewrites quotes when it renames.
    private static func isSame(_ one: String, _ other: String) -> Bool {
        one == other || SQLText(one).comparable == SQLText(other).comparable
    }

    /// Whether a name is that of a trigger that marks.
    private static func isMarkTrigger(_ name: String) -> Bool {
        name.split(separator: "_").last.flatMap { Int64($0) }.map(markTriggerName) == name
    }

    private static func markTriggerName(_ group: Int64) -> String { "annals_marks_\(group)" }

    /// Column lists that share a trigger, because every program parses each trigger when it opens the file.
    private static let listsPerTrigger: Int64 = 32

    private static func group(of list: Int64) -> Int64 { list / listsPerTrigger }

    /// The trigger that marks the last raw changes of a group's column lists, where there are unrecorded ones since the last mark.
    private static func markTrigger(_ group: Int64, _ lists: [Int64]) -> CaptureTriggers.Trigger {
        let changes = lists.map { "SELECT \($0) AS list, max(id) AS last FROM \(StoreSchema.changesTable($0))" }
        return CaptureTriggers.Trigger(
            name: markTriggerName(group),
            body: """
                AFTER INSERT ON annals_context_moments BEGIN
                INSERT INTO annals_context_marks(list, moment, last) SELECT list, NEW.id, last
                FROM (\(changes.joined(separator: " UNION ALL ")))
                AS lists
                WHERE last > coalesce(\(lastMarkSQL(of: "lists.list")), \(SpanTable.endSQL(of: "lists.list", in: nil)), 0);
                END
                """)
    }

    private static func markTriggers(for lists: [Int64]) -> [CaptureTriggers.Trigger] {
        Dictionary(grouping: lists, by: group).sorted { $0.key < $1.key }.map { markTrigger($0.key, $0.value.sorted()) }
    }

    /// Creates the triggers that mark the raw changes of tracked tables, again with these column lists.
    static func mark(_ db: Database, _ lists: [Int64]) throws {
        // Another program may have dropped the tables.
        try db.execute(sql: schema)
        for (group, lists) in Dictionary(grouping: lists, by: group).sorted(by: { $0.key < $1.key }) {
            try createMarkTrigger(db, group) { $0.union(lists) }
        }
    }

    /// The same without this list.
    static func unmark(_ db: Database, _ list: Int64) throws {
        try createMarkTrigger(db, group(of: list)) { $0.subtracting([list]) }
    }

    private static func createMarkTrigger(_ db: Database, _ group: Int64, _ change: (Set<Int64>) -> Set<Int64>) throws {
        let first = group * listsPerTrigger
        let lists = try change(Set(TrackedTable.trackedIDs(db, in: first...(first + listsPerTrigger - 1)))).sorted()
        try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(markTriggerName(group))")
        if !lists.isEmpty { try db.execute(sql: markTrigger(group, lists).createSQL) }
    }

    /// Creates what is missing or altered. Does nothing if a program has an object with the name of the view.
    ///
    /// - Returns: Whether something was missing or altered, so that marks may be missing too.
    static func repair(_ db: Database) throws -> Bool {
        let installed = try Installed(db)
        guard !installed.isTaken, !installed.isWhole else { return false }
        try db.execute(sql: schema)
        for name in installed.triggers { try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(SQL.quote(name))") }
        for object in objects where object.type == "TRIGGER" || !installed.hasView {
            try db.execute(sql: "CREATE \(object.type) main.\(object.name)\(object.body)")
        }
        for trigger in try markTriggers(for: TrackedTable.fetchTracked(db).map(\.id)) { try db.execute(sql: trigger.createSQL) }
        return true
    }

    /// A problem that `verify` reports; nil if writers can give their names.
    package static func problem(_ db: Database) throws -> String? {
        let installed = try Installed(db)
        if installed.isTaken { return "an object of another program has the name \(viewName): writers cannot give their names" }
        return installed.isWhole ? nil : "the view \(viewName) or a trigger of it is missing or altered: writers cannot give their names"
    }

    /// The view and the triggers in a file, compared with those that should be there.
    private struct Installed {
        let hasView: Bool
        /// Another program has an object with the name of the view.
        let isTaken: Bool
        /// The names of Annals' triggers.
        let triggers: [String]
        let isWhole: Bool

        init(_ db: Database) throws {
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT type, name, sql FROM main.sqlite_master
                    WHERE name = '\(viewName)' OR tbl_name IN ('\(viewName)', '\(OwnTables.contextMoments)') AND type = 'trigger'
                    """)
            var found: [String: String] = [:]
            var isTaken = false
            for row in rows {
                let (type, name, sql): (String, String, String) = try (row.value("type"), row.value("name"), row.value("sql"))
                if name == viewName {
                    isTaken = type != "view" || !isSame(sql, NamedWriters.sql(objects[0]))
                } else if !isMarkTrigger(name), !objects.contains(where: { $0.name == name }) {
                    // A program may have its own trigger on the table.
                    continue
                }
                found[name] = sql
            }
            var wanted = objects.map { ($0.name, NamedWriters.sql($0)) }
            wanted += try markTriggers(for: TrackedTable.fetchTracked(db).map(\.id)).map { ($0.name, $0.sql) }
            self.isTaken = isTaken
            hasView = found[viewName] != nil
            triggers = found.keys.filter { $0 != viewName }
            let hasTables = try [OwnTables.contextMoments, OwnTables.contextMarks].allSatisfy { try db.tableExists($0) }
            isWhole =
                hasTables && found.count == wanted.count && wanted.allSatisfy { name, sql in found[name].map { isSame($0, sql) } ?? false }
        }
    }

    /// Removes the view with its triggers, if it is Annals' own.
    static func removeView(_ db: Database) throws {
        let sql = try String.fetchOne(db, sql: "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = '\(viewName)'")
        if let sql, owns("view", viewName, sql: sql) { try db.execute(sql: "DROP VIEW main.\(viewName)") }
    }

    // MARK: For capture

    /// A subquery for the last raw change of a column list at the newest moment that has one; NULL if there is none.
    ///
    /// - Parameter list: the id of the list, as SQL.
    static func lastMarkSQL(of list: String) -> String {
        "(SELECT last FROM annals_context_marks WHERE list = \(list) ORDER BY moment DESC LIMIT 1)"
    }

    // MARK: Reading

    /// The work of one writer that gave its name, or of all writers between two of them.
    package struct Part: Sendable {
        package var author: String?
        package var context: String?
        package var spans: [TransactionRecorder.Span]
    }

    private struct Moment {
        var id: Int64
        /// Whether a writer's work begins. Otherwise it ends.
        var begins: Bool
        /// nil at the end, and for a name that is not valid UTF-8.
        var author: String?
        var context: String?
    }

    private let db: Database
    /// Sorted by id.
    private let moments: [Moment]

    /// nil if no program gave a name since the last recording.
    package init?(_ db: Database) throws {
        guard try db.tableExists(OwnTables.contextMoments) else { return nil }
        let statement = try db.cachedStatement(sql: "SELECT id, author, context FROM main.annals_context_moments ORDER BY id")
        defer { statement.rewind() }
        var moments: [Moment] = []
        while try statement.step() {
            let (author, context) = (statement.value(at: 1), statement.value(at: 2))
            moments.append(
                Moment(id: statement.integer(at: 0), begins: !author.isNull, author: Self.text(author), context: Self.text(context)))
        }
        guard !moments.isEmpty else { return nil }
        (self.db, self.moments) = (db, moments)
    }

    private static func text(_ value: Value) -> String? {
        guard case .text(let text) = value else { return nil }
        return text.string
    }

    /// Deletes the moments and marks. To be called in the SQLite transaction in which the changes are recorded.
    package func forget() throws {
        try db.execute(sql: "DELETE FROM main.annals_context_moments; DELETE FROM main.annals_context_marks")
    }

    /// Divides unrecorded raw changes into parts, in the order in which they were committed.
    ///
    /// - Parameters:
    ///   - spans: the spans of all column lists, with added changes at their ends.
    ///   - missed: the added changes, by column list.
    package func parts(_ spans: [TransactionRecorder.Span], _ missed: [Int64: MissedChanges]) throws -> [Part] {
        var parts: [Part] = []
        /// The part of each interval between two moments that has changes.
        var partOfInterval: [Int: Int] = [:]
        var divided: [(interval: Int, span: TransactionRecorder.Span)] = []
        for span in spans { divided += try divide(span, missed[span.table]) }
        for interval in Set(divided.map(\.interval)).sorted() {
            let name = name(ofInterval: interval)
            if name.author == nil, let last = parts.indices.last, parts[last].author == nil {
                parts[last].context = parts[last].context ?? name.context
            } else {
                parts.append(Part(author: name.author, context: name.context, spans: []))
            }
            partOfInterval[interval] = parts.count - 1
        }
        for (interval, span) in divided {
            guard let part = partOfInterval[interval] else { continue }
            parts[part].append(span)
        }
        return parts
    }

    /// The spans of a column list between moments. Interval 0 is before the first moment.
    private func divide(
        _ span: TransactionRecorder.Span, _ missed: MissedChanges?
    ) throws -> [(interval: Int, span: TransactionRecorder.Span)] {
        let end = missed?.first.map { $0 - 1 } ?? span.ids.upperBound
        let statement = try db.cachedStatement(sql: "SELECT moment, last FROM main.annals_context_marks WHERE list = ? ORDER BY moment")
        try statement.setArguments([span.table])
        defer { statement.rewind() }
        var intervals: [Int] = []
        var spans: [TransactionRecorder.Span] = []
        var first = span.ids.lowerBound
        func append(_ interval: Int, through last: Int64) {
            guard last >= first else { return }
            intervals.append(interval)
            spans.append(TransactionRecorder.Span(table: span.table, ids: first...last))
            first = last + 1
        }
        while try statement.step() {
            let (moment, last) = (statement.integer(at: 0), statement.integer(at: 1))
            // The changes before a moment are in the interval that it ends.
            append(moments.partitioningIndex { $0.id >= moment }, through: min(last, end))
        }
        append(moments.count, through: end)
        if spans.isEmpty { return [(moments.count, span)] }
        return Array(zip(intervals, try missed?.placed(in: spans, db) ?? spans))
    }

    /// The author of the changes after a moment. A moment that begins a writer's work counts only if the next one ends it.
    private func name(ofInterval interval: Int) -> (author: String?, context: String?) {
        guard interval > 0, moments[interval - 1].begins else { return (nil, nil) }
        guard interval < moments.count, !moments[interval].begins else {
            return (nil, "no author: DELETE FROM annals_context is missing before COMMIT")
        }
        guard let author = moments[interval - 1].author else { return (nil, "no author: the name is not valid UTF-8") }
        return (author, moments[interval - 1].context)
    }
}

extension NamedWriters.Part {
    /// Adds a span, or extends the span of the same column list.
    mutating func append(_ span: TransactionRecorder.Span) {
        if let index = spans.lastIndex(where: { $0.table == span.table }) {
            spans[index].ids = spans[index].ids.lowerBound...span.ids.upperBound
        } else {
            spans.append(span)
        }
    }

    /// Adds the work of the next part. The result has no author, because it is the work of several writers.
    fileprivate mutating func join(_ next: Self, context: String) {
        (author, self.context) = (nil, context)
        for span in next.spans { append(span) }
    }
}

extension [NamedWriters.Part] {
    /// The same parts, with runs of them joined. The context of a joined part says why it has no author.
    func joined(_ runs: JoinedRuns, context: String) -> Self {
        var result: Self = []
        for (part, isJoined) in zip(self, runs.isJoined) {
            if isJoined, let last = result.indices.last {
                result[last].join(part, context: context)
            } else {
                result.append(part)
            }
        }
        return result
    }
}

/// Which parts must be one with the part before them.
struct JoinedRuns {
    private(set) var isJoined: [Bool]

    init(of parts: [NamedWriters.Part]) {
        isJoined = Array(repeating: false, count: parts.count)
    }

    mutating func join(_ first: Int, _ last: Int) {
        guard first < last else { return }
        for index in (first + 1)...last { isJoined[index] = true }
    }
}
