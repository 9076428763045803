package import GRDB

extension Database {
    /// The path of the store's file. Empty if the database is in memory.
    package var mainFile: String {
        (try? String.fetchOne(self, sql: "SELECT file FROM pragma_database_list WHERE name = 'main'")) ?? ""
    }
}
