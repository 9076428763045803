package import AnnalsCore

/// A space's schema, as a transaction adds it to the log.
package struct SchemaEntry: Hashable, Sendable {
    package var version: Int64
    /// The CREATE statements of tables, indexes, triggers and views, in an order in which they can be executed.
    package var statements: [String]
    /// The tables that the space syncs.
    package var tracked: [TableLayout]
    /// Whether only replicas with this schema can apply rows that were written under it.
    package var isBreaking: Bool

    package init(version: Int64, statements: [String], tracked: [TableLayout], isBreaking: Bool) {
        self.version = version
        self.statements = statements
        self.tracked = tracked
        self.isBreaking = isBreaking
    }
}

extension ByteWriter {
    mutating func strings(_ strings: [String]) {
        varint(strings.count)
        for text in strings { string(text) }
    }

    mutating func layout(_ layout: TableLayout) {
        string(layout.name)
        strings(layout.columns)
        varint(layout.key.count)
        for columnIndex in layout.key { varint(columnIndex) }
    }

    mutating func schemaEntry(_ entry: SchemaEntry) {
        varint(UInt64(max(entry.version, 0)))
        byte(entry.isBreaking ? 1 : 0)
        strings(entry.statements)
        varint(entry.tracked.count)
        for layout in entry.tracked { self.layout(layout) }
    }
}

extension ByteReader {
    /// - Parameters:
    ///   - limit: the largest number of strings. A string can take one byte of a body, which packs well, and sixteen
    ///     bytes of memory.
    ///   - name: the kind of the strings, for the error.
    mutating func readStrings(_ name: String, limit: Int) throws(WireError) -> [String] {
        let count = try readCount()
        guard count <= limit else { throw .tooLarge(name) }
        var strings: [String] = []
        for _ in 0..<count { strings.append(try readString()) }
        return strings
    }

    mutating func readLayout() throws(WireError) -> TableLayout {
        let name = try readString()
        let columns = try readStrings("columns", limit: WireLimits.maximumColumns)
        let count = try readColumnCount()
        var key: [Int] = []
        for _ in 0..<count {
            let columnIndex = try readInt()
            guard columnIndex < columns.count, !key.contains(columnIndex) else { throw .badValue("key") }
            key.append(columnIndex)
        }
        return TableLayout(name: name, columns: columns, key: key)
    }

    mutating func readSchemaEntry() throws(WireError) -> SchemaEntry {
        let version = try readNumber()
        let isBreaking = try readBool()
        let statements = try readStrings("statements", limit: WireLimits.maximumStatements)
        let count = try readCount(minimumBytes: 3)
        guard count <= WireLimits.maximumTables else { throw .tooLarge("tables") }
        var tracked: [TableLayout] = []
        for _ in 0..<count { tracked.append(try readLayout()) }
        return SchemaEntry(version: version, statements: statements, tracked: tracked, isBreaking: isBreaking)
    }

    /// A count of columns or key columns, limited to the maximum of one table.
    mutating func readColumnCount() throws(WireError) -> Int {
        let count = try readCount()
        guard count <= WireLimits.maximumColumns else { throw .tooLarge("columns") }
        return count
    }
}
