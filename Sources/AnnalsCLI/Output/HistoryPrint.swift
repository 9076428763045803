import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Foundation

/// Prints transactions of history as text, or as one JSON object per line.
struct HistoryPrint: Sendable {
    var console: Console
    var json: Bool
    /// Whether old and new values are printed.
    var values: Bool
    /// Whether each step of each row is printed, with its time: as text with its values, instead of the net changes; as JSON beside
    /// them. Steps outside the dates of the request are left out.
    var steps = false
    var replicas = KnownReplicas()
    /// Prepended to each line of text.
    var indent = ""

    /// Text that is not printed yet.
    struct Buffer: Sendable {
        fileprivate var text = ""
        var bytes: Int { text.utf8.count }
    }

    /// A transaction with many changes is printed in pieces of this size, so that it is never held in memory as a whole.
    private static let heldBytes = 4 << 20

    func render(_ transaction: HistoryTransaction, _ reader: HistoryReader, _ request: HistoryRequest, into buffer: inout Buffer) throws {
        if json {
            buffer.text += "\(String(Self.heading(transaction, replicas).description.dropLast())),\"changes\":["
            var separator = ""
            try reader.forEachChange(in: transaction, request) { change in
                buffer.text += separator + object(change).description
                separator = ","
                handIfLarge(&buffer)
            }
            if steps {
                buffer.text += "],\"steps\":["
                separator = ""
                try reader.forEachStep(in: transaction, request) { step in
                    guard request.holds(step) else { return }
                    buffer.text += separator + object(step).description
                    separator = ","
                    handIfLarge(&buffer)
                }
            }
            buffer.text += "]}\n"
        } else if steps {
            var isFirst = request.hasDates
            if !isFirst { buffer.text += indent + line(transaction) + "\n" }
            try reader.forEachStep(in: transaction, request) { step in
                guard request.holds(step) else { return }
                // Its writes may all be before or after the dates.
                if isFirst { buffer.text += indent + line(transaction) + "\n" }
                isFirst = false
                buffer.text += indent + "  " + line(step) + "\n"
                handIfLarge(&buffer)
            }
        } else {
            buffer.text += indent + line(transaction) + "\n"
            try reader.forEachChange(in: transaction, request) { change in
                buffer.text += indent + "  " + line(change) + "\n"
                handIfLarge(&buffer)
            }
        }
    }

    func hand(_ buffer: Buffer) {
        console.sink.write(buffer.text)
    }

    private func handIfLarge(_ buffer: inout Buffer) {
        guard buffer.bytes > Self.heldBytes else { return }
        hand(buffer)
        buffer.text = ""
    }

    // MARK: JSON

    static func heading(_ transaction: HistoryTransaction, _ replicas: KnownReplicas) -> JSON {
        var replica = JSON.null
        var position = JSON.null
        if case .imported(let author, let place) = transaction.origin {
            replica = .text(author.description)
            position = .integer(place.rawValue)
        }
        return .object([
            "number": .integer(transaction.number), "token": .text(transaction.token.description),
            "time": .text(Timestamp.text(transaction.milliseconds)), "author": .text(transaction.author),
            "context": .text(transaction.contextName), "origin": .text(transaction.origin.name), "process": .text(transaction.process),
            "replica": replica, "replicaName": .text(replicas.name(of: transaction)), "position": position,
        ])
    }

    func object(_ change: HistoryChange) -> JSON { object(change, adding: [:]) }

    func object(_ step: HistoryStep) -> JSON {
        object(step.change, adding: ["time": .text(step.time.map { Timestamp.text($0.milliseconds) })])
    }

    private func object(_ change: HistoryChange, adding members: KeyValuePairs<String, JSON>) -> JSON {
        let json = JSON.object([
            "table": .text(change.table), "key": RowJSON.row(change.key, change.keyColumns), "kind": .text(change.kind.rawValue),
            "columns": .array(change.columns.map { .text($0.name) }),
        ]).adding(members)
        guard values else { return json }
        return json.adding([
            "old": Self.row(change.columns.map { ($0.name, $0.old) }), "new": Self.row(change.columns.map { ($0.name, $0.new) }),
        ])
    }

    /// null if there was no row.
    private static func row(_ columns: [(String, Value?)]) -> JSON {
        let members = columns.compactMap { name, value in value.map { JSON.Member(key: name, value: .value($0)) } }
        return members.isEmpty ? .null : .object(members)
    }

    // MARK: Lines

    /// The name of the replica that wrote; nil if it is not known.
    static func name(of transaction: HistoryTransaction, _ replicas: KnownReplicas) -> String? {
        // Schema changes of the space, and values that waited for them, from several replicas.
        switch transaction.origin {
        case .imported(.relay, _), .imported(.nobody, _): return "the space"
        default: break
        }
        return replicas.name(of: transaction).map(PrintableText.of)
    }

    func line(_ transaction: HistoryTransaction) -> String {
        var parts = [
            console.style(.bold, "#\(transaction.number)"), console.style(.cyan, transaction.token.description),
            Timestamp.text(transaction.milliseconds), transaction.origin.name,
        ]
        if case .imported(let replica, let position) = transaction.origin {
            let name = Self.name(of: transaction, replicas) ?? "replica \(replica.description.prefix(8))"
            parts[3] += " at position \(position), from \(name)"
        }
        if let author = transaction.author { parts.append("by \(PrintableText.of(author))") }
        if let context = transaction.contextName { parts.append("(\(PrintableText.of(context)))") }
        return parts.joined(separator: "  ")
    }

    func line(_ step: HistoryStep) -> String {
        let time = step.time.map { Timestamp.text($0.milliseconds) } ?? "time unknown".padding(toLength: 24, withPad: " ", startingAt: 0)
        return "\(console.style(.dim, time))  \(line(step.change, values: true))"
    }

    func line(_ change: HistoryChange) -> String { line(change, values: values) }

    private func line(_ change: HistoryChange, values: Bool) -> String {
        let (sign, colour): (String, Style.Colour) =
            switch change.kind {
            case .insert: ("+", .green)
            case .update: ("~", .yellow)
            case .delete: ("-", .red)
            }
        let row = "\(PrintableText.of(change.table)) \(RowText.row(change.key, change.keyColumns))"
        let head = console.style(colour, "\(sign) \(row)")
        guard values else { return change.kind == .update ? "\(head): \(names(change))" : head }
        let columns = change.columns.map { column in
            let name = PrintableText.of(column.name)
            switch (column.old, column.new) {
            case (let old?, let new?): return "\(name) \(RowText.value(old)) → \(RowText.value(new))"
            case (nil, let value?), (let value?, nil): return "\(name) \(RowText.value(value))"
            case (nil, nil): return name
            }
        }
        return "\(head): \(columns.joined(separator: ", "))"
    }

    private func names(_ change: HistoryChange) -> String {
        change.columns.map { PrintableText.of($0.name) }.joined(separator: ", ")
    }
}

extension HistoryTransaction {
    /// Milliseconds since 1970.
    var milliseconds: Int64 { timestamp.milliseconds }
}

extension Date {
    /// Milliseconds since 1970.
    var milliseconds: Int64 { milliseconds(rounded: .toNearestOrAwayFromZero) }
}
