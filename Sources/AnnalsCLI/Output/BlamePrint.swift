import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore

/// Prints the writers of a row.
struct BlamePrint {
    let replicas: KnownReplicas

    func print(_ blame: Blame, on console: Console) {
        let row = "\(PrintableText.of(blame.table)) \(RowText.row(blame.key, blame.keyColumns))"
        switch blame.end {
        case nil: break
        case .deleted(let transaction):
            let note = transaction.author == nil ? nil : transaction.contextName
            console.print("\(row) was deleted by \(words(transaction))\(note.map { ", \(PrintableText.of($0))" } ?? "")")
        case .moved(let key, let transaction):
            console.print("\(row) became \(RowText.row(key, blame.keyColumns)) by \(words(transaction))")
        }
        var table = Table(["column", "value", "written", "author", "replica", "note", "transaction"])
        for column in blame.columns {
            let cells: [Table.Cell] =
                switch column.writer {
                case .transaction(let transaction):
                    [
                        .init(Timestamp.text(column.time?.milliseconds ?? transaction.milliseconds)),
                        .init(transaction.author ?? ""),
                        .init(replica(transaction)), .init(transaction.contextName ?? ""),
                        .init("#\(transaction.number) \(origin(transaction))"),
                    ]
                case .beforeHistory: [.init("before history", colour: .dim)] + Self.noTransaction
                case .columnDefault: [.init("column default", colour: .dim)] + Self.noTransaction
                }
            table.append([.init(column.name), .init(column.value)] + cells)
        }
        console.print(table)
    }

    private static let noTransaction = Array(repeating: Table.Cell(""), count: 4)

    private func words(_ transaction: HistoryTransaction) -> String {
        let by = (transaction.author ?? transaction.contextName).map { " by \(PrintableText.of($0))" } ?? ""
        let from = replica(transaction)
        let place = origin(transaction) + (from.isEmpty ? "" : ", from \(from)")
        return "#\(transaction.number)\(by), \(Timestamp.text(transaction.milliseconds)), \(place)"
    }

    /// The name of the replica that wrote, or the beginning of its id; empty for a store that is not joined.
    private func replica(_ transaction: HistoryTransaction) -> String {
        if let name = HistoryPrint.name(of: transaction, replicas) { return name }
        guard case .imported(let replica, _) = transaction.origin else { return "" }
        return String(replica.description.prefix(8))
    }

    private func origin(_ transaction: HistoryTransaction) -> String {
        guard case .imported(_, let position) = transaction.origin else { return transaction.origin.name }
        return "imported at position \(position)"
    }

    func json(_ blame: Blame) -> JSON {
        let columns = blame.columns.map { column -> JSON in
            let writer: (JSON, HistoryTransaction?) =
                switch column.writer {
                case .transaction(let transaction): (.text("transaction"), transaction)
                case .beforeHistory: (.text("beforeHistory"), nil)
                case .columnDefault: (.text("columnDefault"), nil)
                }
            return .object([
                "column": .text(column.name), "value": .value(column.value), "writer": writer.0,
                "transaction": writer.1.map { HistoryPrint.heading($0, replicas) } ?? .null,
                "time": .text(column.time.map { Timestamp.text($0.milliseconds) }),
            ])
        }
        var end = JSON.null
        switch blame.end {
        case nil: break
        case .deleted(let transaction):
            end = .object(["kind": .text("deleted"), "transaction": HistoryPrint.heading(transaction, replicas)])
        case .moved(let key, let transaction):
            end = .object([
                "kind": .text("moved"), "key": RowJSON.row(key, blame.keyColumns),
                "transaction": HistoryPrint.heading(transaction, replicas),
            ])
        }
        return .object([
            "table": .text(blame.table), "key": RowJSON.row(blame.key, blame.keyColumns), "columns": .array(columns), "end": end,
        ])
    }
}
