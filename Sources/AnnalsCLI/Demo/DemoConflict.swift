import AnnalsCore
import AnnalsReplica
import AnnalsStore

/// Prints a conflict with the names of the two sides instead of their replica ids.
enum DemoConflict {
    static func lines(_ line: NamedConflict, _ names: [ReplicaID: String], _ style: Style) -> [String] {
        let entry = line.conflict.entry
        let incoming = names[line.conflict.name.replica] ?? "incoming"
        let stored = entry.storedReplica.flatMap { names[$0] } ?? "stored"
        if entry.kind == .renumber { return [renumbered(line, incoming, style)] }
        let columns = entry.columns.isEmpty ? line.layout?.columns ?? [] : entry.columns
        let winner = entry.winner == .incoming ? incoming : stored
        var lines = [
            "\(style(.bold, "\(PrintableText.of(entry.table)) \(RowText.key(entry.key, line.layout))"))"
                + "  \(ConflictReport.kind(entry.kind)), policy \(entry.policy)"
        ]
        if let base = entry.base { lines.append("  before  \(RowText.row(base, columns))") }
        for (name, row) in [(stored, entry.stored), (incoming, entry.incoming)] {
            let text = row.map { RowText.row($0, columns) } ?? "no row"
            let isWinner = name == winner
            let padded = name + String(repeating: " ", count: max(1, 8 - name.count))
            lines.append("  " + (isWinner ? style(.green, "\(padded)\(text)  ← won") : "\(padded)\(text)"))
        }
        return lines
    }

    private static func renumbered(_ line: NamedConflict, _ owner: String, _ style: Style) -> String {
        let entry = line.conflict.entry
        let now = entry.incoming.map { RowText.row($0, entry.columns) } ?? "another number"
        return style(.bold, "\(PrintableText.of(entry.table)) \(RowText.key(entry.key, line.layout))")
            + "  was used on both sides: the \(owner)'s row became \(now), and rows that refer to it were updated"
    }
}
