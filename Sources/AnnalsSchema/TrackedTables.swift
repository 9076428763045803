package import AnnalsCore
package import AnnalsMerge
import AnnalsSQLite
import Foundation
package import GRDB

/// The tracked tables as they are declared now, with what the merge and footprints need.
package struct TrackedTables: Sendable {
    package struct Entry: Sendable {
        /// The id in `annals_tables`, which identifies the table in bodies.
        package var id: Int64
        /// The declaration in this store.
        package var definition: DeclaredTable
        /// The same declaration under canonical names, which the log and other replicas use.
        package var first: DeclaredTable
        /// The rules for the footprints of this store's transactions.
        package var rules: FootprintRules
        /// The rules that every author must follow. References that the schema does not declare are left out: an author may not have
        /// known them, and a row may lack such a parent.
        package var requiredRules: FootprintRules
        /// The declared references, in the order of the declaration, and then those that the schema does not declare.
        package var references: [ParentReference]
    }

    package struct Child: Sendable {
        package var table: String
        /// The number of the foreign key in the child's list of references.
        package var number: Int
        package var reference: ParentReference
    }

    package private(set) var entries: [Entry] = []
    private var indexes: [String: Int] = [:]
    private var indexesByCanonicalName: [String: Int] = [:]
    /// All column lists by id, read together with the tables; nil if they were not read from a store.
    package private(set) var layouts: [Int64: TrackedTable]?
    /// Maps this store's names to canonical names.
    package let canonicalNames: NameMap
    private var children: [String: [Child]] = [:]
    /// The decisions about references that the schema does not declare, under canonical names.
    package let undeclared: [ReferenceSetting]
    /// Foreign keys of tables without history that refer to these tables.
    package private(set) var untrackedReferences: [UntrackedReference] = []
    /// Tables without capture that the file has under the names of dropped or leftover tables.
    private var untracked: [(name: String, list: TrackedTable)] = []
    /// For each table name its rank in an order that puts parents first, if the tables have such an order.
    package private(set) var order: [String: Int] = [:]
    /// Tables refer to each other in a cycle, or to themselves, with SET NULL or SET DEFAULT in it. SQLite's own check then misses
    /// references to rows that a REPLACE removed on the way.
    package private(set) var hasUncheckedCircles = false

    package static func load(_ db: Database) throws -> TrackedTables {
        let all = try TrackedTable.fetchAll(db)
        let tracked = all.filter { $0.state == .tracked }
        let lists = Dictionary(tracked.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
        let definitions = try SchemaReader(db).tables(named: tracked.map(\.name))
        var names = NameMap()
        for table in tracked {
            names.add(table.name, as: table.first.table, columns: Array(zip(table.columns, table.first.columns)))
        }
        var tables = try TrackedTables(
            definitions.compactMap { table in lists[table.name.foldedIdentifier].map { ($0.id, table.filled($0)) } }, canonicalNames: names,
            undeclared: ReferenceTable.load(db))
        tables.untrackedReferences = try UntrackedReference.fetchAll(db, tracked: tracked.map(\.name))
        tables.layouts = Dictionary(all.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        tables.untracked = try untracked(all, db)
        return tables
    }

    private static func untracked(_ all: [TrackedTable], _ db: Database) throws -> [(name: String, list: TrackedTable)] {
        let newest = Dictionary(all.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 }).values
        let ended = newest.filter { $0.state == .dropped || $0.state == .leftover }
        guard !ended.isEmpty else { return [] }
        return try SchemaReader(db).tables(named: ended.map(\.name).sorted()).compactMap { table in
            ended.first { $0.name.isSameIdentifier(as: table.name) }.map { (table.name, $0) }
        }
    }

    /// Tables that the space has removed and that are still in the file, without capture.
    package var leftover: [(name: String, first: String)] {
        untracked.filter { $0.list.state == .leftover }.map { ($0.name, $0.list.first.table) }
    }

    /// The last column list of a table that the space has, by its canonical name, if this store removed it or knows that it was removed.
    package func dropped(first name: String) -> TrackedTable? {
        let list = layouts?.values.filter { $0.first.table.isSameIdentifier(as: name) }.max { $0.id < $1.id }
        switch list?.state {
        // The space has the table again if the relay lost the removal.
        case .leftover, .removed: return list
        // Otherwise there is a table that cannot be tracked.
        case .dropped where !untracked.contains { $0.list.id == list?.id }: return list
        default: return nil
        }
    }

    /// The same tables with other decisions about undeclared references.
    package func with(undeclared: [ReferenceSetting]) -> TrackedTables {
        var tables = TrackedTables(
            entries.map { ($0.id, $0.definition) }, canonicalNames: canonicalNames, undeclared: undeclared)
        tables.untrackedReferences = untrackedReferences
        tables.layouts = layouts
        tables.untracked = untracked
        return tables
    }

    /// The same tables without some of them. References to those remain.
    package func without(_ names: [String]) -> TrackedTables {
        guard !names.isEmpty else { return self }
        let left = entries.filter { entry in !names.contains(where: entry.definition.name.isSameIdentifier) }
        var tables = TrackedTables(left.map { ($0.id, $0.definition) }, canonicalNames: canonicalNames, undeclared: undeclared)
        tables.layouts = layouts
        return tables
    }

    /// - Parameter undeclared: The decisions about references that the schema does not declare, under canonical names.
    package init(
        _ definitions: [(id: Int64, definition: DeclaredTable)], canonicalNames: NameMap = NameMap(), undeclared: [ReferenceSetting] = []
    ) {
        self.canonicalNames = canonicalNames
        self.undeclared = undeclared
        let first = definitions.map { canonicalNames.definition($0.definition) }
        // Footprints use canonical names. Otherwise the hashes of replicas with other local names would differ, and conflicts would
        // be missed.
        let byName = Dictionary(first.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
        let added = undeclared.isEmpty ? nil : UndeclaredReferences(undeclared, first)
        let localNames = Dictionary(zip(first, definitions).map { ($0.name.foldedIdentifier, $1.definition) }, uniquingKeysWith: { $1 })
        for ((id, definition), first) in zip(definitions, first) {
            indexes[definition.name.foldedIdentifier] = entries.count
            indexesByCanonicalName[first.name.foldedIdentifier] = entries.count
            let required = first.footprintRules(references: first.references) { byName[$0.foldedIdentifier] }
            var (rules, references) = (required, definition.references)
            if let more = added?.byTable[first.name.foldedIdentifier] {
                rules = first.footprintRules(references: first.references + more) { byName[$0.foldedIdentifier] }
                references += more.map { $0.renamed(byName, localNames) }
            }
            entries.append(
                Entry(id: id, definition: definition, first: first, rules: rules, requiredRules: required, references: references))
            for (number, reference) in references.enumerated() {
                children[reference.parentTable.foldedIdentifier, default: []]
                    .append(Child(table: definition.name, number: number, reference: reference))
            }
        }
        sortByReferences()
        hasUncheckedCircles = findUncheckedCircles()
    }

    package func table(named name: String) -> Entry? {
        indexes[name.foldedIdentifier].map { entries[$0] }
    }

    /// The table with this canonical name.
    package func table(first name: String) -> Entry? {
        indexesByCanonicalName[name.foldedIdentifier].map { entries[$0] }
    }

    /// Maps canonical names to this store's names.
    package var localNames: NameMap {
        var names = NameMap()
        for entry in entries {
            let columns = zip(entry.first.columns, entry.definition.columns).map { ($0.name, $1.name) }
            names.add(entry.first.name, as: entry.definition.name, columns: columns)
        }
        return names
    }

    package func references(to parent: String) -> [Child] {
        children[parent.foldedIdentifier] ?? []
    }

    package func untrackedReferences(to parent: String) -> [UntrackedReference] {
        untrackedReferences.filter { $0.parent.isSameIdentifier(as: parent) }
    }

    private func findUncheckedCircles() -> Bool {
        func parents(_ name: String) -> Set<String> {
            Set(table(named: name)?.definition.references.map(\.parentTable.foldedIdentifier) ?? [])
        }
        return entries.contains { entry in
            let sets = entry.definition.references.filter { reference in
                [reference.onDelete, reference.onUpdate].contains { $0 == .setNull || $0 == .setDefault }
            }
            return sets.contains { reference in
                var reached = Set([reference.parentTable.foldedIdentifier])
                var rest = Array(reached)
                while let name = rest.popLast() {
                    for parent in parents(name) where reached.insert(parent).inserted { rest.append(parent) }
                }
                return reached.contains(entry.definition.name.foldedIdentifier)
            }
        }
    }

    /// Parents before children, depth first. A cycle starts at the first of its tables that is visited.
    private mutating func sortByReferences() {
        var visited: Set<String> = []
        func visit(_ name: String) {
            guard let entry = table(named: name), visited.insert(name.foldedIdentifier).inserted else { return }
            for reference in entry.references { visit(reference.parentTable) }
            order[entry.definition.name] = order.count
        }
        for entry in entries { visit(entry.definition.name) }
    }
}

extension DeclaredTable {
    /// The table with the values of rows that are older than its columns.
    fileprivate func filled(_ list: TrackedTable) -> DeclaredTable {
        var table = self
        for (columnIndex, sql) in list.fills where columns.indices.contains(columnIndex) { table.columns[columnIndex].fillSQL = sql }
        return table
    }
}

/// The names in the log for the table ids in stored bodies, also for column lists that are no longer in use.
package struct LayoutNames: Sendable {
    private let layouts: [Int: TableLayout]

    package init(_ db: Database) throws {
        var layouts: [Int: TableLayout] = [:]
        for table in try TrackedTable.fetchAll(db) { layouts[Int(table.id)] = table.firstLayout }
        self.layouts = layouts
    }

    package func layout(_ id: Int) throws -> TableLayout {
        guard let layout = layouts[id] else { throw MergeError.unknownLayout(id) }
        return layout
    }

    package var all: [Int: TableLayout] { layouts }
}

extension ParentReference {
    /// The reference under the names of this store. Its column indexes are the same.
    fileprivate func renamed(_ canonical: [String: DeclaredTable], _ local: [String: DeclaredTable]) -> ParentReference {
        let name = parentTable.foldedIdentifier
        guard let from = canonical[name], let to = local[name] else { return self }
        var renamed = self
        renamed.parentTable = to.name
        renamed.parentColumns = parentColumns.map { column in from.columnIndex(of: column).map { to.columns[$0].name } ?? column }
        return renamed
    }
}
