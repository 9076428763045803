import AnnalsCore
import AnnalsReplica
import AnnalsStore

/// Prints an entry of the conflict journal.
enum ConflictReport {
    /// The keys of the command line's contract, in its order. Rows are objects from column to value.
    static func json(_ line: NamedConflict) -> JSON {
        let conflict = line.conflict
        let entry = conflict.entry
        let columns = disputed(line)
        return .object([
            "id": .integer(conflict.id), "kind": .text(kind(entry.kind)), "table": .text(entry.table),
            "key": RowJSON.key(entry.key, line.layout), "columns": .array(entry.columns.map { .text($0) }), "policy": .text(entry.policy),
            "base": RowJSON.row(entry.base, columns), "stored": RowJSON.row(entry.stored, columns),
            "incoming": RowJSON.row(entry.incoming, columns), "winner": .text(side(entry.winner)), "loser": .text(side(entry.winner.other)),
            "authors": .object(["stored": .text(known(line.storedAuthor)), "incoming": .text(known(conflict.author))]),
            "replicas": .object(["stored": .text(entry.storedReplica?.description), "incoming": .text(conflict.name.replica.description)]),
            "replicaNames": .object(["stored": .text(line.storedReplicaName), "incoming": .text(line.incomingReplicaName)]),
            "positions": .object([
                "stored": entry.storedPosition.map { .integer($0.rawValue) } ?? .null, "incoming": .integer(conflict.position.rawValue),
            ]),
            "times": .object([
                "stored": .text(entry.storedTime.map { Timestamp.text($0) }), "incoming": .text(Timestamp.text(conflict.time)),
            ]),
            "waiting": .bool(conflict.isWaiting), "resolved": .bool(conflict.isResolved),
            "resolution": .text(conflict.resolution?.rawValue),
            "holder": line.holder.map { RowJSON.key($0.key, line.layout) } ?? .null,
        ])
    }

    /// A heading, and a line for the value of each side.
    static func lines(_ line: NamedConflict, _ style: Style) -> [String] {
        let entry = line.conflict.entry
        let columns = disputed(line)
        let key = RowText.key(entry.key, line.layout)
        if entry.kind == .renumber { return [renumbered(line, key, style)] }
        let place = entry.columns.isEmpty ? "the row" : entry.columns.joined(separator: ", ")
        var lines = [
            style(.bold, "#\(line.conflict.id) \(PrintableText.of(entry.table)) \(key)")
                + "  \(kind(entry.kind)) of \(PrintableText.of(place)), \(PrintableText.of(entry.policy))"
                + (line.conflict.isWaiting ? ", waits for a decision" : resolution(line, style))
        ]
        let stored = writer(line.storedAuthor, line.storedReplicaName, entry.storedReplica)
        for (name, row, when, who) in [
            ("base", entry.base, nil, nil), ("stored", entry.stored, entry.storedTime, stored),
            ("incoming", entry.incoming, Optional(line.conflict.time), incomingWriter(line)),
        ] {
            guard name != "base" || row != nil else { continue }
            let isWinner = name == line.conflict.resolution.map(\.rawValue) ?? side(entry.winner)
            let isOther = name == "stored" && row == nil && entry.kind == .unique && entry.winner == .stored
            let empty = isOther ? "another row, with the same UNIQUE value" : "no row"
            let text = "  \(isWinner ? "✓" : " ") \(pad(name)) \(row.map { RowText.row($0, columns) } ?? empty)"
            let time = when.map { style(.dim, "  \(Timestamp.text($0))\(who ?? "")") } ?? ""
            lines.append((isWinner ? style(.green, text) : text) + time)
        }
        if entry.base != nil, entry.base == entry.stored, line.conflict.isWaiting {
            lines.append("    \(pad("note")) the stored side changed other columns of this row, and the policy settles whole rows")
        }
        if let holder = line.holder {
            let values = RowText.row(holder.values, holder.columns)
            lines.append("    \(pad("holder")) \(RowText.key(holder.key, line.layout)) has \(values) now; annals blame shows who wrote it")
        }
        if !line.sums.isEmpty {
            let applied = line.conflict.resolution == nil ? notApplied(line.sums) : "resolved"
            let why = entry.kind == .check && entry.policy == "sum" ? "refused by a constraint: " : ""
            lines.append("    \(pad("sum")) \(sumText(line.sums))  \(why)\(applied)")
        }
        return lines
    }

    /// One line about the side whose value is not in the row.
    static func lost(_ line: NamedConflict) -> String {
        let entry = line.conflict.entry
        let columns = disputed(line)
        let row = "\(PrintableText.of(entry.table)) \(RowText.key(entry.key, line.layout))"
        if !line.sums.isEmpty, entry.kind == .check, ["sum", "whole"].contains(entry.policy) {
            let gives =
                entry.policy == "sum"
                ? "sum gives \(sumText(line.sums)), which a constraint refuses"
                : "a constraint refuses a row of the transaction, which is kept or set aside as a whole"
            let others = columns.indices.filter { index in !line.sums.contains { $0.column == columns[index] } }
            let rest = others.compactMap { index in
                entry.incoming.flatMap { $0.indices.contains(index) ? RowText.row([$0[index]], [columns[index]]) : nil }
            }
            return "\(row): \(notApplied(line.sums)): \(gives)"
                + (rest.isEmpty ? "" : "; \(rest.joined(separator: ", ")) was not kept, because it is a change of the same row")
        }
        func text(_ side: JournalEntry.Side) -> String {
            let values = side == .stored ? entry.stored : entry.incoming
            return values.map { RowText.row($0, columns) } ?? "the delete"
        }
        let why = "\(kind(entry.kind)), \(PrintableText.of(entry.policy))"
        if entry.isMerge, entry.stored == nil {
            let target = line.holder.map { RowText.key($0.key, line.layout) } ?? "the row with the same UNIQUE value"
            return "the new \(row) was merged into the space's row \(target), and rows that referred to it refer to that row now; "
                + "\(text(.incoming)) was not kept (\(why))"
        }
        if entry.winner == .stored, entry.stored == nil, ![.deleteOfUpdated, .updateOfDeleted].contains(entry.kind) {
            return "\(row): \(text(.incoming)) was not inserted (\(why))"
        }
        return "\(row): \(text(entry.winner.other)) was not kept, \(text(entry.winner)) was (\(why))"
    }

    private static func sumText(_ sums: [RefusedSum]) -> String { RowText.row(sums.map(\.sum), sums.map(\.column)) }

    private static func notApplied(_ sums: [RefusedSum]) -> String {
        let changes = sums.map { "of \(PrintableText.of($0.column)) by \($0.changeText)" }.joined(separator: " and ")
        return sums.count == 1 ? "the change \(changes) was not applied" : "the changes \(changes) were not applied"
    }

    private static func renumbered(_ line: NamedConflict, _ key: String, _ style: Style) -> String {
        let now = line.conflict.entry.incoming.map { RowText.row($0, line.conflict.entry.columns) } ?? "another number"
        return style(.bold, "#\(line.conflict.id) \(PrintableText.of(line.conflict.entry.table)) \(key)")
            + "  renumber: both sides used this key; the incoming row became \(now)"
            + resolution(line, style)
            + style(.dim, "  \(Timestamp.text(line.conflict.time))\(incomingWriter(line) ?? "")")
    }

    private static func resolution(_ line: NamedConflict, _ style: Style) -> String {
        switch line.conflict.resolution {
        case nil: ""
        case .stored?, .incoming?: style(.dim, ", resolved")
        case .values?: style(.dim, ", resolved with other values")
        case .tableRemoved?: style(.dim, ", settled: the table was removed")
        }
    }

    private static func incomingWriter(_ line: NamedConflict) -> String? {
        writer(line.conflict.author, line.incomingReplicaName, line.conflict.name.replica)
    }

    /// The author and the replica, each only if it is known and says more than the other; the beginning of the replica's id if neither is.
    private static func writer(_ author: String?, _ replicaName: String?, _ replica: ReplicaID?) -> String? {
        let (author, name) = (known(author).map(PrintableText.of), known(replicaName).map(PrintableText.of))
        let words = [author.map { " by \($0)" }, name == author ? nil : name.map { " on \($0)" }].compactMap(\.self)
        guard words.isEmpty else { return " " + words.joined() }
        return replica.map { "  on the replica \($0.description.prefix(idCharacters))" }
    }

    private static let idCharacters = 8

    /// A replica of an encrypted space has an empty name.
    private static func known(_ name: String?) -> String? { name.flatMap { $0.isEmpty ? nil : $0 } }

    private static func pad(_ name: String) -> String {
        name + String(repeating: " ", count: max(0, "incoming".count - name.count))
    }

    /// The columns whose values the entry's rows have.
    private static func disputed(_ line: NamedConflict) -> [String] {
        line.conflict.entry.columns.isEmpty ? line.layout?.columns ?? [] : line.conflict.entry.columns
    }

    private static func kind(_ kind: JournalEntry.Kind) -> String { ConflictKind.allCases.first { $0.kind == kind }?.rawValue ?? "" }

    private static func side(_ side: JournalEntry.Side) -> String {
        switch side {
        case .stored: "stored"
        case .incoming: "incoming"
        }
    }
}

extension JournalEntry.Side {
    fileprivate var other: Self { self == .stored ? .incoming : .stored }
}
