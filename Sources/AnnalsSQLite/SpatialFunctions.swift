import AnnalsCore
package import GRDB
import GRDBSQLite

/// The functions with which the triggers of a GeoPackage keep its R-tree indexes: `ST_IsEmpty`, `ST_MinX`, `ST_MaxX`, `ST_MinY`
/// and `ST_MaxY`. SQLite does not have them. Without them, SQLite refuses every write to a table with such triggers.
///
/// Source: OGC 12-128r18, GeoPackage Encoding Standard 1.3.1, annex F.3 (R-tree spatial indexes).
package enum SpatialFunctions {
    package static let names: Set<String> = Set(Function.allCases.map(\.rawValue.foldedIdentifier))

    /// Adds the functions to a connection. If the program has added its own, these stay.
    package static func install(_ db: Database) {
        guard let connection = db.sqliteConnection, !hasOwn(connection) else { return }
        for function in Function.allCases {
            // SQLite may call an innocuous function in a schema that is not trusted.
            let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
            sqlite3_create_function_v2(connection, function.rawValue, 1, flags, nil, function.body, nil, nil, nil)
        }
    }

    private static func hasOwn(_ connection: SQLiteConnection) -> Bool {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        return sqlite3_prepare_v2(connection, "SELECT \(Function.isEmpty.rawValue)(NULL)", -1, &statement, nil) == SQLITE_OK
    }

    private typealias Body = @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

    private enum Function: String, CaseIterable {
        case isEmpty = "ST_IsEmpty"
        case minX = "ST_MinX"
        case maxX = "ST_MaxX"
        case minY = "ST_MinY"
        case maxY = "ST_MaxY"

        var body: Body {
            switch self {
            case .isEmpty:
                { context, _, arguments in
                    guard let geometry = SpatialFunctions.geometry(arguments) else { return sqlite3_result_null(context) }
                    sqlite3_result_int(context, geometry.isEmpty ? 1 : 0)
                }
            case .minX: { SpatialFunctions.answer($0, SpatialFunctions.geometry($2)?.bounds?.x.lowerBound) }
            case .maxX: { SpatialFunctions.answer($0, SpatialFunctions.geometry($2)?.bounds?.x.upperBound) }
            case .minY: { SpatialFunctions.answer($0, SpatialFunctions.geometry($2)?.bounds?.y.lowerBound) }
            case .maxY: { SpatialFunctions.answer($0, SpatialFunctions.geometry($2)?.bounds?.y.upperBound) }
            }
        }
    }

    private static func geometry(_ arguments: UnsafeMutablePointer<OpaquePointer?>?) -> GeoPackageGeometry? {
        guard let value = arguments?[0], sqlite3_value_type(value) == SQLITE_BLOB, let bytes = sqlite3_value_blob(value) else { return nil }
        return GeoPackageGeometry(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_value_bytes(value))))
    }

    private static func answer(_ context: OpaquePointer?, _ number: Double?) {
        if let number { sqlite3_result_double(context, number) } else { sqlite3_result_null(context) }
    }
}
