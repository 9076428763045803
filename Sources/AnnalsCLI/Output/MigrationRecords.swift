/// The tables in which well-known migration tools record the migrations that they have run. They are not synced, so they are
/// empty in a clone, and the tool would run its migrations again.
enum MigrationRecords {
    /// What to do for each table of this kind, in the order of the names.
    static func notes(_ emptyTables: [String]) -> [String] {
        emptyTables.compactMap { name in
            guard let tool = tools[name.lowercased()] else { return nil }
            let rest = tool.command.map { "run \($0)" } ?? "copy the rows of \(name) from another replica"
            return "\(name) is empty, and the clone has the newest schema: before \(tool.name) migrates it, \(rest)"
        }
    }

    private static let tools: [String: (name: String, command: String?)] = [
        "django_migrations": ("Django", "python manage.py migrate --fake"),
        "alembic_version": ("Alembic", "alembic stamp head"),
        "flyway_schema_history": ("Flyway", "flyway baseline with -baselineVersion= and the newest version"),
        "schema_migrations": ("Rails or another tool", nil),
        "ar_internal_metadata": ("Rails", nil),
        "knex_migrations": ("Knex", nil),
        "sequelizemeta": ("Sequelize", nil),
        "_prisma_migrations": ("Prisma", "prisma migrate resolve --applied for each migration"),
        "__efmigrationshistory": ("Entity Framework", nil),
        "diesel_schema_migrations": ("Diesel", nil),
        "__diesel_schema_migrations": ("Diesel", nil),
        "_sqlx_migrations": ("sqlx", nil),
    ]
}
