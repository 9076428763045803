import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The R-tree indexes that a trigger fills from the rows of a table, like those of a GeoPackage.
///
/// A new replica gets the rows without running the user's triggers. The statement of the trigger, asked of all rows, fills the index.
package enum SpatialIndexes {
    /// Fills each index from the current rows of its table. An index whose trigger has another form, or whose statement SQLite
    /// refuses, stays empty.
    package static func rebuild(_ db: Database, schema: String = "main") throws {
        for source in try sources(db, schema) {
            do {
                try db.execute(sql: source.sql(schema))
            } catch let error as DatabaseError where [.SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
                // A function or a table does not exist here, or a value does not fit.
            }
        }
    }

    /// Names of the indexes that `rebuild` fills.
    package static func filled(_ db: Database, schema: String = "main") throws -> Set<String> {
        Set(try sources(db, schema).map(\.index))
    }

    private static func sources(_ db: Database, _ schema: String) throws -> [Source] {
        let indexes = try Row.fetchAll(
            db, sql: "SELECT name, sql FROM \(schema).sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
        ).filter { row in
            ["rtree", "rtree_i32"].contains(SQLText(try row.value("sql")).virtualTableModule?.lowercased())
        }.map { row -> String in try row.value("name") }
        guard !indexes.isEmpty else { return [] }
        let sql = "SELECT sql FROM \(schema).sqlite_master WHERE type = 'trigger' AND sql IS NOT NULL ORDER BY name"
        return try String.fetchAll(db, sql: sql).compactMap(TriggerDefinition.init(sql:)).flatMap { trigger in
            trigger.timing == .after && trigger.event == .insert
                ? trigger.statements.compactMap { Source($0, of: trigger, indexes) } : []
        }
    }

    /// A statement of the form `INSERT INTO index (columns) VALUES (expressions)` in a trigger after INSERT.
    private struct Source {
        let index: String
        private let table: String
        private let condition: String?
        private let columns: String
        private let expressions: String

        init?(_ statement: TriggerStatement, of trigger: TriggerDefinition, _ indexes: [String]) {
            guard case .writes(let name, .insert) = statement.effect, let index = indexes.first(where: { $0.isSameIdentifier(as: name) }),
                case let source = Array(statement.text.utf8), case let tokens = SQLToken.all(in: statement.text),
                let values = tokens.firstIndex(where: { $0.isWord("VALUES") }), let into = tokens.firstIndex(where: { $0.isWord("INTO") }),
                let expressions = Self.list(tokens[(values + 1)...]), case let rest = tokens[(into + 2)..<values]
            else { return nil }
            func text(_ tokens: ArraySlice<SQLToken>) -> String {
                guard let first = tokens.first, let last = tokens.last else { return "" }
                return String(decoding: source[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
            }
            guard rest.isEmpty || Self.list(rest) != nil else { return nil }
            (self.index, table, condition) = (index, trigger.table, trigger.conditionExpression)
            (columns, self.expressions) = (text(rest), text(expressions))
        }

        /// The tokens in the parentheses that the tokens begin and end with. nil if they have another form.
        private static func list(_ tokens: ArraySlice<SQLToken>) -> ArraySlice<SQLToken>? {
            var depth = 0
            for (number, token) in tokens.enumerated() {
                if token.isSymbol("(") { depth += 1 }
                if token.isSymbol(")") { depth -= 1 }
                guard depth > 0 || number == tokens.count - 1 else { return nil }
            }
            return depth == 0 && tokens.count > 2 ? tokens.dropFirst().dropLast() : nil
        }

        /// The alias NEW gives the trigger's expressions the row that they name. A row that the index would refuse is left out, because
        /// rows from elsewhere must not make a new replica impossible.
        func sql(_ schema: String) -> String {
            """
            INSERT OR IGNORE INTO \(schema).\(SQL.quote(index)) \(columns)
            SELECT \(expressions) FROM \(schema).\(SQL.quote(table)) AS NEW WHERE \(condition.map { "(\($0)\n)" } ?? "1")
            """
        }
    }
}
