import AnnalsCore
import AnnalsMerge

/// The declaration of a table: `TableForm("person", "id team", references: [.init("team", "team", .setNull)])`.
struct TableForm: Sendable {
    struct Reference: Sendable {
        var columns: [String]
        var parent: String
        var parentColumns: [String]
        var onDelete: MergeTable.DeleteAction

        init(_ columns: String, _ parent: String, _ onDelete: MergeTable.DeleteAction, to parentColumns: String = "id") {
            (self.columns, self.parent, self.onDelete) = (columns.words, parent, onDelete)
            self.parentColumns = parentColumns.words
        }
    }

    var name: String
    var columns: [String]
    var key: [String]
    /// Whether the key is an INTEGER PRIMARY KEY.
    var isNumbered: Bool
    var unique: [[String]]
    var notNull: [String]
    var references: [Reference]
    var defaults: [String: Value]
    var check: @Sendable ([Value]) -> Bool
    var rows: [[Value]]

    init(
        _ name: String, _ columns: String, key: String = "id", isNumbered: Bool = false, unique: [String] = [], notNull: String = "",
        references: [Reference] = [], defaults: [String: Value] = [:], check: @escaping @Sendable ([Value]) -> Bool = { _ in true },
        rows: [[Value]] = []
    ) {
        (self.name, self.columns, self.key, self.isNumbered) = (name, columns.words, key.words, isNumbered)
        (self.unique, self.notNull, self.references) = (unique.map(\.words), notNull.words, references)
        (self.defaults, self.check, self.rows) = (defaults, check, rows)
    }

    var uniqueIndexes: [NameIndex] { unique.map(index) }

    func columnIndex(_ column: String) -> Int {
        guard let index = columns.firstIndex(of: column) else { preconditionFailure("no column \(column)") }
        return index
    }

    func index(_ names: [String]) -> NameIndex {
        NameIndex(table: name, parts: names.map { (columnIndex($0), FootprintRules.Column(name: $0, affinity: .blob)) })
    }

    func mergeTable(among forms: [TableForm]) -> MergeTable {
        let referring = forms.flatMap(\.references).filter { $0.parent == name }
        var keys = [index(key)]
        for reference in referring where !keys.contains(index(reference.parentColumns)) { keys.append(index(reference.parentColumns)) }
        return MergeTable(
            name: name, columns: columns.map { MergeTable.Column(name: $0, isNotNull: notNull.contains($0)) },
            primaryKey: key.map(columnIndex),
            rowidAlias: isNumbered ? columnIndex(key[0]) : nil, candidateKeys: keys,
            references: references.map { reference($0, among: forms) }, uniqueColumns: Set((unique.joined() + key).map(columnIndex)),
            isReferenced: !referring.isEmpty)
    }

    private func reference(_ reference: Reference, among forms: [TableForm]) -> MergeTable.Reference {
        let parent = forms.first { $0.name == reference.parent }
        let pairs = zip(reference.columns, reference.parentColumns).map { (child: columnIndex($0), parent: parent?.columnIndex($1) ?? 0) }
        let naming = parent.map {
            ParentNaming(index: $0.index(reference.parentColumns), columnIndexes: pairs.sorted { $0.parent < $1.parent }.map(\.child))
        }
        return MergeTable.Reference(columnIndexes: pairs.map(\.child), onDelete: reference.onDelete, parent: naming)
    }
}

extension String {
    fileprivate var words: [String] { split(separator: " ").map(String.init) }
}
