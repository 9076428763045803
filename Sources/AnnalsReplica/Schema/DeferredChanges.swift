import AnnalsCore
import AnnalsRows
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// The changes of one transaction to deferred cells. There are two passes, since rows may swap their keys.
final class DeferredChanges {
    private let rows: DeferredCells
    /// The deferred cells of rows that change their key, by the old key.
    private var moving: [Place: [(column: String, value: Value)]] = [:]

    private struct Place: Hashable {
        var table: String
        var key: [Value]
    }

    init(_ rows: DeferredCells) {
        self.rows = rows
    }

    package var missingSchema: MissingSchema { rows.missingSchema }

    /// The first pass: rows that are deleted or that change their key.
    func takeOut(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws {
        switch change.kind {
        case .insert: return
        case .delete: try rows.take(table: layout.name, key: layout.key.map { bytes.value(change.old[$0]) })
        case .update:
            let old = change.key.map(bytes.value)
            guard newKey(layout, change, bytes) != old else { return }
            moving[Place(table: layout.name.foldedIdentifier, key: old)] = try rows.take(table: layout.name, key: old)
        }
    }

    /// The second pass: new rows and values.
    package func put(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) throws {
        func cells(_ columns: [Int], _ values: [WireValue]) -> [(column: String, value: Value)] {
            zip(columns, values).compactMap { column, value in
                let name = layout.columns[column]
                return missingSchema.has(name, of: layout.name) ? (name, bytes.value(value)) : nil
            }
        }
        switch change.kind {
        case .delete: return
        case .insert:
            let key = layout.key.map { bytes.value(change.new[$0]) }
            // The deferred cells of an earlier row with this key were removed with that row.
            try rows.put(cells(Array(change.new.indices), change.new), table: layout.name, key: key)
        case .update:
            let key = newKey(layout, change, bytes)
            let old = change.key.map(bytes.value)
            if key != old, let moved = moving.removeValue(forKey: Place(table: layout.name.foldedIdentifier, key: old)) {
                try rows.put(moved, table: layout.name, key: key)
            }
            try rows.put(cells(change.columns, change.new), table: layout.name, key: key)
        }
    }

    /// Both passes over a transaction of this replica.
    package func follow(_ content: TransactionParts) throws {
        for pass in [takeOut, put] {
            var change = WireChange()
            try content.forEach { part in
                var reader = part.reader
                while let reference = try reader.nextTable() {
                    guard let layout = part.layouts[reference] else { throw MergeError.unknownLayout(reference) }
                    guard missingSchema.touches(layout.name) else { continue }
                    while try reader.nextChange(into: &change) {
                        try reader.withBytes { bytes in try pass(layout, change, bytes) }
                    }
                }
            }
        }
    }

    private func newKey(_ layout: TableLayout, _ change: WireChange, _ bytes: UnsafeRawBufferPointer) -> [Value] {
        var key = change.key.map(bytes.value)
        for (index, column) in change.columns.enumerated() {
            if let columnIndex = layout.key.firstIndex(of: column) { key[columnIndex] = bytes.value(change.new[index]) }
        }
        return key
    }
}

extension BodyReader {
    fileprivate func withBytes(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows { try bytes.withUnsafeBytes(body) }
}
