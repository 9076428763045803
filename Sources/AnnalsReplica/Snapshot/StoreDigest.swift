package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
package import GRDB

/// One digest for all tracked rows. It is equal on equal replicas, also if their files differ inside.
///
/// It is the SHA-256 of the following bytes. Numbers, strings and values are coded as in a batch (see `ByteWriter`): a string is
/// its length and its UTF-8, a value is its tag and content.
///
/// 1. The 16 bytes `annals digest 1\n`.
/// 2. Every tracked table, in the order of its name: the byte 1, the name, the number of its stored columns, and their
///    names, in the order of the names. Names are in lower case, A–Z only, as SQLite compares them, and ordered by bytes.
/// 3. After each table its rows, in the order of the key: the byte 2, and the values in the order of the columns' names.
///    The key's columns are used in the order of the declaration. They hold no NULL, since rows with NULL in the key are local
///    and left out. Numbers come first, by size, then text, then blobs, both by bytes. Declared collations are ignored.
/// 4. At the end the byte 0.
///
/// In a space, the names are the canonical names of tables and columns. They do not depend on local names.
///
/// Generated columns are left out, because the other columns determine them.
package enum StoreDigest {
    /// The digest of the tracked rows that the access to `db` sees. Memory stays constant.
    package static func rows(_ db: Database) throws -> Digest {
        let entries = try TrackedTables.load(db).entries
        return try rows(db, schema: "main", tables: entries.map(\.definition), named: entries.map(\.first))
    }

    /// - Parameter first: The tables with the space's names. Without it, their own names are used.
    package static func rows(_ db: Database, schema: String, tables: [DeclaredTable], named first: [DeclaredTable]? = nil) throws -> Digest
    {
        var sink = Sink()
        sink.writer.bytes(Array("annals digest 1\n".utf8))
        let collation = try byteOrder(db)
        let sorted = zip(first ?? tables, tables).map { ($0.name.foldedIdentifier, $0, $1) }.sorted { ByteString($0.0) < ByteString($1.0) }
        for (name, first, table) in sorted {
            let columns = zip(first.columns, table.columns).map { ($0.name.foldedIdentifier, SQL.quote($1.name)) }
                .sorted { ByteString($0.0) < ByteString($1.0) }
            sink.writer.byte(Mark.table)
            sink.writer.string(name)
            sink.writer.varint(columns.count)
            for column in columns { sink.writer.string(column.0) }
            let key = table.primaryKey.map { SQL.quote(table.columns[$0].name) }
            let statement = try PreparedStatement(
                db,
                """
                SELECT \(columns.map(\.1).joined(separator: ", ")) FROM \(schema).\(SQL.quote(table.name))
                WHERE \(key.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                ORDER BY \(key.map { "\($0) COLLATE \(collation)" }.joined(separator: ", "))
                """)
            while try statement.step() { sink.row(statement, count: columns.count) }
        }
        sink.writer.byte(Mark.end)
        return sink.finish()
    }

    private enum Mark {
        static let end: UInt8 = 0
        static let table: UInt8 = 1
        static let row: UInt8 = 2
    }

    /// Collects bytes, and hashes them in pieces.
    private struct Sink {
        var writer = ByteWriter()
        private var hasher = Digest.Hasher()
        private static let pieceBytes = 1 << 16

        mutating func row(_ statement: PreparedStatement, count: Int) {
            writer.byte(Mark.row)
            for column in 0..<count {
                statement.withColumn(column) { value in
                    switch value {
                    case .null: writer.null()
                    case .integer(let integer): writer.integer(integer)
                    case .real(let real): writer.real(real)
                    case .text(let text): writer.text(text)
                    case .blob(let blob): writer.blob(blob)
                    }
                }
            }
            if writer.count >= Self.pieceBytes { flush() }
        }

        private mutating func flush() {
            hasher.update(writer.bytes[...])
            writer.bytes.removeAll(keepingCapacity: true)
        }

        mutating func finish() -> Digest {
            flush()
            return hasher.finish()
        }
    }

    /// BINARY compares the stored bytes. For UTF-16 this is not the order of UTF-8.
    private static func byteOrder(_ db: Database) throws -> String {
        guard try String.fetchOne(db, sql: "PRAGMA main.encoding") != "UTF-8" else { return Collation.binary }
        let name = "annals_utf8"
        db.add(
            collation: DatabaseCollation(name) { left, right in
                if left.utf8.elementsEqual(right.utf8) { return .orderedSame }
                return left.utf8.lexicographicallyPrecedes(right.utf8) ? .orderedAscending : .orderedDescending
            })
        return name
    }
}
