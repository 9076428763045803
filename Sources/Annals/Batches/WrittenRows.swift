import AnnalsSchema
import AnnalsStore
import GRDB

extension QueryInterfaceRequest where RowDecoder: TableRecord {
    /// The same rows, in a form that UPDATE and DELETE accept, with or without RETURNING.
    ///
    /// SQLite accepts LIMIT in these statements only if it was built with that option, and GRDB puts LIMIT after RETURNING, which
    /// is a syntax error. GRDB also ends the process for a request with associations if the table has neither a rowid nor a key
    /// of one column. Such requests become a list of keys.
    func forWriting(_ db: Database) throws -> QueryInterfaceRequest<RowDecoder> {
        guard let table = try SchemaReader(db).table(RowDecoder.databaseTableName) else { return self }
        let rowid = table.rowidName.map { [$0] }
        let key = rowid ?? table.primaryKey.map { table.columns[$0].name }
        // A request does not say whether it has a limit, but its SQL does.
        let isLimited = try makePreparedRequest(db).statement.sql.contains("LIMIT")
        guard isLimited || key.count > 1 else { return self }
        let names = key.indices.map { "annals_key_\($0)" }
        // The columns that associations add stay inside the subquery.
        let keys = select(zip(key, names).map { Column($0).forKey($1) })
        return RowDecoder.all().filter(
            GRDB.SQL(
                """
                (\(sql: key.map(\.quotedDatabaseIdentifier).joined(separator: ", "))) \
                IN (SELECT \(sql: names.joined(separator: ", ")) FROM (\(keys)))
                """))
    }
}
