public import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// A decision about a reference that the schema does not declare.
public struct DecidedReference: Hashable, Sendable {
    public var setting: ReferenceSetting
    /// Why the reference is not followed at the moment, for example because a column does not exist here yet; nil if it is followed.
    public var problem: String?
}

extension Store {
    /// The decisions about references that the schema does not declare, sorted by table and columns.
    public func references() async throws -> [DecidedReference] {
        try await managed("reference") { db, step in
            guard try StoreSchema.exists(db) else { return [] }
            let tables = try step.tables()
            let names = tables.localNames
            let problems = UndeclaredReferences(tables.undeclared, tables.entries.map(\.first)).problems
            return tables.undeclared.map { setting in
                DecidedReference(
                    setting: setting.renamed(names), problem: problems.first { $0.setting == setting }?.reason)
            }
        }
    }

    /// Decides about references that the schema does not declare. Merges then keep them as declared foreign keys: they follow a parent
    /// whose key is renumbered, and `onDelete` says what happens to a row whose parent another replica deleted. SQLite still enforces
    /// nothing, so a program can leave a row without a parent.
    ///
    ///     try await store.setReferences([
    ///         ReferenceSetting(table: "items", columns: ["album_id"], to: ReferenceTarget(table: "albums", columns: ["id"])),
    ///         ReferenceSetting(table: "items", columns: ["disc_id"], .none),
    ///     ])
    ///
    /// In a joined store they are decisions of the space, which reach every replica through the log. In another store they become
    /// decisions of the space that it joins.
    ///
    /// - Parameters:
    ///   - settings: the decisions, in their order. They apply to merges from now on; rows that a merge changed before stay.
    ///   - author: the author in history.
    /// - Throws: `AnnalsError`: `usage` for a table or column that does not exist, a parent's columns that are not unique, or a
    ///   condition that is more than comparisons with literals; `notTracked` without a tracked table; `schemaRefused` if the tables do
    ///   not match the space. Nothing is set then.
    public func setReferences(_ settings: [ReferenceSetting], author: String? = nil) async throws {
        try await managed("reference") { db, step in
            guard try StoreSchema.exists(db) else { throw Self.notTracked }
            try step.recordExternal()
            guard settings.count <= SchemaLimits.references else {
                throw Self.refused("more than \(SchemaLimits.references) references cannot be set at once")
            }
            let tables = try step.tables()
            let spelled = try settings.map { try ReferenceSpelling(tables.entries.map(\.definition)).spelled($0) }
            let named = spelled.map { $0.renamed(tables.canonicalNames) }
            let after = ReferenceTable.merged(tables.undeclared, with: named)
            for setting in ReferenceTable.merged([], with: named) where !after.contains(setting) {
                throw Self.refused("a space has at most \(SchemaLimits.references) references that its schema does not declare")
            }
            // A new reference may also be the reason why an older one could not be followed any more.
            let before = UndeclaredReferences(tables.undeclared, tables.entries.map(\.first)).problems.map(\.setting)
            let problems = UndeclaredReferences(after, tables.entries.map(\.first)).problems
            if let problem = problems.first(where: { !before.contains($0.setting) }) {
                throw Self.refused("\(problem.setting.renamed(tables.localNames).text): \(problem.reason)")
            }
            guard try StoreSchema.isReplica(db) else { return try ReferenceTable.set(db, named) }
            // Names that the space does not know must not get into the outbox.
            try step.schemaComparison()
            let filler = try step.filler()
            try filler.fill()
            let decisions = UserDecisions(references: named)
            try filler.append(decisions, with: nil, as: step.identities.next(), time: step.tick(), author: author)
            try decisions.apply(db)
        }
    }

    private static var notTracked: AnnalsError {
        AnnalsError(
            .notTracked, operation: "reference", "no table is tracked", hint: "Call track(_:) first", commandHint: "Run annals track first")
    }

    private static func refused(_ message: String) -> AnnalsError {
        AnnalsError(.usage, operation: "reference", message, hint: "Nothing was set")
    }
}

/// Gives names the spelling of the tables.
private struct ReferenceSpelling {
    private let tables: [DeclaredTable]

    init(_ tables: [DeclaredTable]) {
        self.tables = tables
    }

    func spelled(_ setting: ReferenceSetting) throws -> ReferenceSetting {
        guard !setting.columns.isEmpty, setting.columns.count <= WireLimits.maximumReferenceColumns else {
            throw usage("a reference has from 1 to \(WireLimits.maximumReferenceColumns) columns")
        }
        let table = try table(setting.table)
        var spelled = ReferenceSetting(table: table.name, columns: try columns(setting.columns, table), setting.decision)
        if var target = setting.target {
            let parent = try self.table(target.table)
            target.table = parent.name
            target.columns = try columns(target.columns, parent)
            guard target.columns.count == spelled.columns.count else {
                throw usage("\(setting.text) has another number of columns than its parent")
            }
            spelled.decision = .refers(target)
        }
        return spelled
    }

    private func table(_ name: String) throws -> DeclaredTable {
        guard let table = tables.first(where: { $0.name.isSameIdentifier(as: name) }) else {
            throw usage(
                "there is no tracked table \(name)", "The tracked tables are \(tables.map(\.name).joined(separator: ", "))")
        }
        return table
    }

    private func columns(_ names: [String], _ table: DeclaredTable) throws -> [String] {
        try names.map { name in
            guard let columnIndex = table.columnIndex(of: name) else { throw usage("the table \(table.name) has no stored column \(name)") }
            return table.columns[columnIndex].name
        }
    }

    private func usage(_ message: String, _ hint: String? = nil) -> AnnalsError {
        AnnalsError(.usage, operation: "reference", message, hint: hint ?? "Nothing was set")
    }
}

extension ReferenceSetting {
    /// The reference as people read it: `items.album_id -> albums.id`.
    package var text: String {
        let own = "\(table).\(columns.joined(separator: ","))"
        guard let target else { return own }
        return "\(own) -> \(target.table).\(target.columns.joined(separator: ","))"
    }
}
