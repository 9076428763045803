package import AnnalsCore
import AnnalsMerge
import AnnalsSQLite

/// Which decided references can be followed with the tables as they are. The others wait: a column may come with a later migration.
package struct UndeclaredReferences {
    /// By the folded name of the child table.
    private(set) var byTable: [String: [ParentReference]] = [:]
    /// Why the others are not followed, in the order of the settings. The text continues a sentence.
    package private(set) var problems: [(setting: ReferenceSetting, reason: String)] = []

    /// - Parameter settings: The decisions under the names of the tables.
    package init(_ settings: [ReferenceSetting], _ tables: [DeclaredTable]) {
        let known = Dictionary(tables.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
        // Keys that are references, as the schema declares them and as they are added.
        var namedBy: [String: Set<String>] = [:]
        func note(_ table: DeclaredTable, _ reference: ParentReference) {
            guard reference.columnIndexes.contains(where: table.primaryKey.contains) else { return }
            namedBy[table.name.foldedIdentifier, default: []].insert(reference.parentTable.foldedIdentifier)
        }
        for table in tables { for reference in table.references { note(table, reference) } }
        for setting in settings {
            guard let target = setting.target else { continue }
            do {
                let (table, reference) = try Self.reference(setting, target, known)
                if reference.columnIndexes.contains(where: table.primaryKey.contains),
                    Self.reaches(table.name.foldedIdentifier, from: reference.parentTable.foldedIdentifier, namedBy)
                {
                    throw ConditionText.Invalid(reason: "the keys of \(table.name) and \(reference.parentTable) would refer to each other")
                }
                note(table, reference)
                byTable[table.name.foldedIdentifier, default: []].append(reference)
            } catch {
                problems.append((setting, (error as? ConditionText.Invalid)?.reason ?? "\(error)"))
            }
        }
    }

    private static func reaches(_ table: String, from parent: String, _ namedBy: [String: Set<String>]) -> Bool {
        var (reached, rest) = (Set([parent]), [parent])
        while let name = rest.popLast() {
            if name == table { return true }
            for next in namedBy[name] ?? [] where reached.insert(next).inserted { rest.append(next) }
        }
        return false
    }

    private static func reference(
        _ setting: ReferenceSetting, _ target: ReferenceTarget, _ tables: [String: DeclaredTable]
    ) throws -> (DeclaredTable, ParentReference) {
        func invalid(_ reason: String) -> ConditionText.Invalid { ConditionText.Invalid(reason: reason) }
        func table(_ name: String) throws -> DeclaredTable {
            guard let table = tables[name.foldedIdentifier] else { throw invalid("there is no tracked table \(name)") }
            return table
        }
        func columnIndexes(_ names: [String], of table: DeclaredTable) throws -> [Int] {
            let columnIndexes = try names.map { name in
                guard let columnIndex = table.columnIndex(of: name) else {
                    throw invalid("the table \(table.name) has no stored column \(name)")
                }
                return columnIndex
            }
            guard !names.isEmpty, Set(columnIndexes).count == names.count else { throw invalid("a column is named twice") }
            return columnIndexes
        }
        let (child, parent) = (try table(setting.table), try table(target.table))
        let own = try columnIndexes(setting.columns, of: child)
        let theirs = try columnIndexes(target.columns, of: parent)
        guard own.count == theirs.count else { throw invalid("it has \(own.count) columns and its parent \(theirs.count)") }
        guard parent.hasUniqueColumns(theirs) else {
            let names = target.columns.joined(separator: ", ")
            throw invalid("\(names) is neither the primary key of \(parent.name) nor a UNIQUE index without a WHERE clause")
        }
        if child.name == parent.name, !Set(own).isDisjoint(with: theirs) { throw invalid("a row would refer to itself") }
        let isDeclared = child.references.contains { $0.columnIndexes == own && $0.parentTable.isSameIdentifier(as: parent.name) }
        if isDeclared { throw invalid("the schema declares it already") }
        if target.onDelete == .setNull, let column = own.first(where: { child.columns[$0].isNotNull || child.primaryKey.contains($0) }) {
            throw invalid("\(child.name).\(child.columns[column].name) cannot be NULL, as set-null needs")
        }
        let condition = try target.condition.map { try ConditionText.condition($0, on: child) }
        if let condition, !Set(condition.columnIndexes).isDisjoint(with: own) {
            throw invalid("the condition names a column of the reference itself")
        }
        return (
            child,
            ParentReference(
                columnIndexes: own, parentTable: parent.name, parentColumns: theirs.map { parent.columns[$0].name },
                onDelete: .init(target.onDelete), onUpdate: .noAction, condition: condition)
        )
    }
}

extension DeclaredTable {
    /// Whether exactly these columns are the primary key, or a unique index whose tuples can be computed from a row.
    fileprivate func hasUniqueColumns(_ columnIndexes: [Int]) -> Bool {
        if Set(primaryKey) == Set(columnIndexes), primaryKey.count == columnIndexes.count { return true }
        return uniqueIndexes.contains { index in
            !index.isCoarse && index.columnIndexes.map { Set($0) == Set(columnIndexes) && $0.count == columnIndexes.count } ?? false
        }
    }
}

extension DeclaredTable.ForeignKeyAction {
    fileprivate init(_ action: ReferenceTarget.DeleteAction) {
        switch action {
        case .noAction: self = .noAction
        case .restrict: self = .restrict
        case .setNull: self = .setNull
        case .cascade: self = .cascade
        }
    }
}
