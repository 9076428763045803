import AnnalsCore
import AnnalsMerge
import AnnalsWire

/// A second, simple implementation of merge rules 6 to 9. Parts of it can be left out.
struct ModelFootprint {
    /// Parts that a footprint may lack, to check that the test of commuting pairs fails then.
    enum Weakness: CaseIterable {
        case noReads, noTuplesGivenUp, noTuplesTaken, noRows, noCollations, noAffinities, noCoarseIndexes, onlyKeys
    }

    private struct Hash: Hashable {
        var table: String
        var text: String
    }

    private var writes: Set<Hash> = []
    private var reads: Set<Hash> = []
    private let weakness: Weakness?

    init(without weakness: Weakness?) {
        self.weakness = weakness
    }

    mutating func add(_ rules: FootprintRules, old: [Value]?, new: [Value]?) {
        for row in [old, new].compactMap({ $0 }) where weakness != .noRows {
            write(rules.table, "row \(rules.key.columnIndexes.enumerated().map { comparable(row[$1], rules.key.columns[$0]) })")
        }
        for index in [rules.key] + (weakness == .onlyKeys ? [] : rules.uniques) {
            let name = "\(index.columns.map(\.name).sorted())"
            if index.isCoarse {
                let isTouched = old.map { old in
                    new.map { new in (index.coarseColumns ?? Array(old.indices)).contains { old[$0] != new[$0] } } ?? true
                }
                if weakness != .noCoarseIndexes, isTouched ?? true { write(rules.table, "index \(name)") }
                continue
            }
            let given = old.flatMap { tuple($0, index.columnIndexes, index.columns) }
            let taken = new.flatMap { tuple($0, index.columnIndexes, index.columns) }
            guard given != taken else { continue }
            if let given, weakness != .noTuplesGivenUp { write(rules.table, "tuple \(name) \(given)") }
            if let taken, weakness != .noTuplesTaken { write(rules.table, "tuple \(name) \(taken)") }
        }
        guard let new, weakness != .noReads else { return }
        for reference in rules.references {
            if let old, reference.columnIndexes.allSatisfy({ old[$0] == new[$0] }) { continue }
            let name = "\(reference.parentColumns.map(\.name).sorted())"
            if reference.isCoarse {
                reads.insert(Hash(table: reference.parentTable, text: "index \(name)"))
            } else if let tuple = tuple(new, reference.columnIndexes, reference.parentColumns) {
                reads.insert(Hash(table: reference.parentTable, text: "tuple \(name) \(tuple)"))
            }
        }
    }

    func conflicts(with other: ModelFootprint) -> Bool {
        !writes.isDisjoint(with: other.writes) || !writes.isDisjoint(with: other.reads) || !reads.isDisjoint(with: other.writes)
    }

    private mutating func write(_ table: String, _ text: String) {
        writes.insert(Hash(table: table, text: text))
    }

    private func tuple(_ row: [Value], _ columnIndexes: [Int], _ columns: [FootprintRules.Column]) -> String? {
        let parts = zip(columnIndexes, columns).sorted { $0.1.name < $1.1.name }
        guard !parts.contains(where: { row[$0.0].isNull }) else { return nil }
        return "\(parts.map { comparable(row[$0.0], $0.1) })"
    }

    /// A value in the form in which the index compares it.
    private func comparable(_ value: Value, _ column: FootprintRules.Column) -> String {
        switch value {
        case .null: return "NULL"
        case .integer(let integer):
            return column.affinity == .text && weakness != .noAffinities ? "text \(integer)" : "\(integer)"
        case .real(let real): return Int64(exactly: real).map { "\($0)" } ?? "\(real)"
        case .blob(let blob): return "blob \(blob.bytes)"
        case .text(let text):
            var string = text.string ?? "\(text.bytes)"
            let isNumber = column.affinity == .integer || column.affinity == .numeric || column.affinity == .real
            if isNumber, weakness != .noAffinities, let integer = Int64(string) { return "\(integer)" }
            if weakness == .noCollations { return "text \(string)" }
            if column.collation == .noCase { string = string.lowercased() }
            if column.collation == .rTrim { while string.last == " " { string.removeLast() } }
            return "text \(string)"
        }
    }
}
