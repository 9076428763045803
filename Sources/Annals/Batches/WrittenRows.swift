import AnnalsSchema
import AnnalsStore
import GRDB

extension QueryInterfaceRequest where RowDecoder: TableRecord {
    /// The same rows, as UPDATE and DELETE can name them, with or without RETURNING.
    ///
    /// SQLite takes a LIMIT there only if it was built to, and GRDB puts it behind RETURNING, where it may not stand; and GRDB ends the
    /// process where a request with associations is for a table whose rows have neither a rowid nor a key of one column. Such requests
    /// become a list of keys.
    func forWriting(_ db: Database) throws -> QueryInterfaceRequest<RowDecoder> {
        guard let table = try SchemaReader(db).table(RowDecoder.databaseTableName) else { return self }
        let rowid = table.rowidName.map { [$0] }
        let key = rowid ?? table.primaryKey.map { table.columns[$0].name }
        // A request does not say whether it is limited; its SQL does.
        let isLimited = try makePreparedRequest(db).statement.sql.contains("LIMIT")
        guard isLimited || key.count > 1 else { return self }
        let names = key.indices.map { "annals_key_\($0)" }
        // What associations select comes along within.
        let keys = select(zip(key, names).map { Column($0).forKey($1) })
        return RowDecoder.all().filter(
            GRDB.SQL(
                """
                (\(sql: key.map(\.quotedDatabaseIdentifier).joined(separator: ", "))) \
                IN (SELECT \(sql: names.joined(separator: ", ")) FROM (\(keys)))
                """))
    }
}
